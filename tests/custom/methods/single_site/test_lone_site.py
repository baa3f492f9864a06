"""A site by itself: its own network is trained, and the shared one goes back as it came."""

from pathlib import Path

from support.personal import DATA, averaged_alone, received, same, site_part, train_round, values
from support.site_views import HandmadeSite


def test_it_sends_back_what_it_got_and_trains_alone(tmp_path: Path) -> None:
    method = site_part("single_site")
    network = received(method)
    before = values(network)
    personal, _ = train_round(method, network, tmp_path)
    assert same(before, values(network))
    seed = HandmadeSite(tmp_path, DATA).view(method, 2).training_seed
    assert same(personal, averaged_alone(method.settings, received(method), seed))
