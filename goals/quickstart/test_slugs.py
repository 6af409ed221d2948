from slugs import slugify


def test_words_are_joined_by_dashes() -> None:
    assert slugify("Hello World") == "hello-world"


def test_punctuation_is_dropped() -> None:
    assert slugify("Hello, World!") == "hello-world"


def test_a_run_of_spaces_is_one_dash() -> None:
    assert slugify("Hello   World") == "hello-world"
