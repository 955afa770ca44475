"""The sample's tokenizer and chat format, with transformers as their judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}, {"type": "video"}]},
]
RENDERED = (
    "<|im_start|>system\nBe brief.<|im_end|>\n"
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What is this?"
    "<|vision_start|><|video_pad|><|vision_end|><|im_end|>\n"
    "<|im_start|>assistant\n"
)


def read(folder: Path, name: str) -> Any:
    """A JSON file of the sample."""
    return json.loads((folder / name).read_text())


def test_the_vocabulary_is_bytes_and_special_tokens(sample_folder: Path) -> None:
    tokenizer = read(sample_folder, "tokenizer.json")
    assert sorted(tokenizer["model"]["vocab"].values()) == list(range(256))
    assert [token["id"] for token in tokenizer["added_tokens"]] == list(range(256, 263))
    assert tokenizer["model"]["vocab"]["A"] == ord("A")
    assert tokenizer["model"]["vocab"]["Ġ"] == ord(" ")
    assert tokenizer["model"]["vocab"]["Ċ"] == ord("\n")


def test_the_chat_template_is_one_and_the_same(sample_folder: Path) -> None:
    import jinja2

    template = (sample_folder / "chat_template.jinja").read_text()
    assert read(sample_folder, "tokenizer_config.json")["chat_template"] == template
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)
    assert environment.from_string(template).render(messages=MESSAGES, add_generation_prompt=True) == RENDERED


def test_transformers_loads_the_tokenizer(sample_folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(sample_folder)
    assert len(tokenizer) == 263
    text = "héllo,  <|im_end|>\n\twörld \U0001f30a"
    assert tokenizer.encode("é<|im_end|>") == [0xC3, 0xA9, 258]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True) == RENDERED
