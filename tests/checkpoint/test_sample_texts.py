"""The sample's text files, and transformers as their judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def read(folder: Path, name: str) -> Any:
    """A JSON file of the sample."""
    return json.loads((folder / name).read_text())


def test_the_config_names_tokens_that_exist(sample_folder: Path) -> None:
    ids = {token["content"]: token["id"] for token in read(sample_folder, "tokenizer.json")["added_tokens"]}
    config = read(sample_folder, "config.json")
    assert config["image_token_id"] == ids["<|image_pad|>"]
    assert config["video_token_id"] == ids["<|video_pad|>"]
    assert config["vision_start_token_id"] == ids["<|vision_start|>"]
    assert config["vision_end_token_id"] == ids["<|vision_end|>"]
    assert max(ids.values()) < config["text_config"]["vocab_size"]


def test_the_card_begins_with_front_matter(sample_folder: Path) -> None:
    import yaml

    _, front, _ = (sample_folder / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(front)["license"] == "apache-2.0"


def test_transformers_loads_the_model(sample_folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    model, report = transformers.AutoModelForImageTextToText.from_pretrained(
        sample_folder, dtype=torch.bfloat16, output_loading_info=True
    )
    assert {key: found for key, found in report.items() if found} == {}
    ids = torch.tensor([[257, 259, 261, 261, 261, 261, 260, *b"what is this?", 258]])
    picture = torch.linspace(-1, 1, 16 * 3 * 2 * 16 * 16).reshape(16, -1)
    with torch.no_grad():
        logits = model(
            input_ids=ids,
            pixel_values=picture,
            image_grid_thw=torch.tensor([[1, 4, 4]]),
            mm_token_type_ids=(ids == 261).int(),
        ).logits.float()
    assert logits.isfinite().all()
    assert 0.1 < logits.std() < 2
