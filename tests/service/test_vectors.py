"""The API of an index of vectors, which have no pictures."""

from tests.service.servers import save_scan


def test_the_service_says_that_there_are_no_pictures(vectors):
    status, info = vectors.get("/api/info")
    assert status == 200
    assert (info["pictures"], info["needs"]) == (False, "vectors of length 64 (from pixels)")
    assert (info["items"], info["dim"]) == (100, 8)
    for ending in ("", "?thumbnail=true"):
        status, answer = vectors.get(f"/api/items/digits%2Ftile%201/image{ending}")
        assert status == 404
        assert answer["message"] == "digits/tile 1 is a vector, which has no picture"


def test_an_index_of_images_has_pictures(server):
    info = server.get("/api/info")[1]
    assert (info["pictures"], info["needs"]) == (True, "images")


def test_an_item_is_searched_from_and_an_image_is_refused(vectors, tmp_path):
    status, answer = vectors.search(item="digits/tile 1", k="3", exclude_self="true")
    assert status == 200
    assert len(answer["neighbours"]) == 3
    assert answer["thumbnail"] is None
    again = vectors.search(replay=answer["replay"], k="3", exclude_self="true", exclude_group="P8")[1]
    assert again["neighbours"] == answer["neighbours"]
    image = save_scan(1, tmp_path / "a.png").read_bytes()
    status, answer = vectors.search(image=image)
    assert status == 422
    assert (
        "needs vectors of length 64 (from pixels), not images: search from an indexed item"
        in answer["message"]
    )
