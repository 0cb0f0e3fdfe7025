"""Class distributions: sufficient statistics, priors, and the posterior read from both."""
