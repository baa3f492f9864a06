from fedannot.transforms.natural_order import natural_order


def test_numbers_are_compared_by_value():
    names = ["b1", "a10", "a2", "A3", "a", "a2b", "10"]
    assert sorted(names, key=natural_order) == ["10", "a", "a2", "a2b", "A3", "a10", "b1"]
    sites = ["site-10", "site-2", "b-1", "site-1", "site-1a"]
    assert sorted(sites, key=natural_order) == ["b-1", "site-1", "site-1a", "site-2", "site-10"]
