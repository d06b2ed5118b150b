"""Generated code is what ``proto/`` says, and a new release understands the last one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

ROOT = Path(__file__).resolve().parents[2]
DESCRIPTORS = ROOT / "tests" / "data" / "descriptors"


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "proto" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def current(generate, tmp_path):
    out = tmp_path / "now.binpb"
    generate.describe(out)
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


def test_checked_in_code_is_what_the_generator_writes(generate, tmp_path):
    generate.generate(tmp_path)
    written = sorted(f.relative_to(tmp_path) for f in tmp_path.rglob("*.py*"))
    assert [f.name for f in written] == [
        "agent_pb2.py",
        "agent_pb2.pyi",
        "agent_pb2_grpc.py",
        "agent_pb2_grpc.pyi",
        "gateway_pb2.py",
        "gateway_pb2.pyi",
        "gateway_pb2_grpc.py",
        "gateway_pb2_grpc.pyi",
    ]
    for file in written:
        assert (tmp_path / file).read_bytes() == (ROOT / "runtime" / file).read_bytes(), (
            f"{file} differs: run `make proto`"
        )


@pytest.mark.parametrize("release", sorted(DESCRIPTORS.glob("*.binpb")), ids=lambda f: f.stem)
def test_messages_still_mean_what_they_meant_in(release, current):
    assert broken(before=read(release), after=current) == []


def test_a_changed_number_type_or_name_is_noticed(current):
    after = descriptor_pb2.FileDescriptorSet()
    after.CopyFrom(current)
    messages = {m.name: m for m in after.file[0].message_type}
    messages["StopShard"].field[0].number = 9
    messages["Ack"].field[1].type = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
    del messages["LogsReply"].field[3]
    after.file[0].enum_type[0].value[4].number = 12
    assert sorted(broken(before=current, after=after)) == [
        "llmgw.rpc.v1.Ack.ok: is not what it was",
        "llmgw.rpc.v1.LogsReply: number 4 (error) is gone and not reserved",
        "llmgw.rpc.v1.ShardState: SHARD_STATE_READY is not 4 any more",
        "llmgw.rpc.v1.StopShard: number 1 (shard_id) is gone and not reserved",
    ]


def test_a_field_may_go_when_its_number_stays_reserved(current):
    after = descriptor_pb2.FileDescriptorSet()
    after.CopyFrom(current)
    reply = next(m for m in after.file[0].message_type if m.name == "LogsReply")
    del reply.field[3]
    reply.reserved_range.add(start=4, end=5)
    assert broken(before=current, after=after) == []


def read(file):
    return descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes())


def broken(*, before, after):
    """What a peer of the release ``before`` would misread, one line each."""
    new_messages, new_enums = indexed(after)
    old_messages, old_enums = indexed(before)
    return [
        *(
            line
            for name, message in old_messages.items()
            for line in changed_fields(name, message, new_messages.get(name))
        ),
        *(
            f"{name}: {value.name} is not {value.number} any more"
            for name, enum in old_enums.items()
            for value in enum.value
            if (value.name, value.number)
            not in {(v.name, v.number) for v in getattr(new_enums.get(name), "value", ())}
        ),
    ]


def changed_fields(name, old, new):
    if new is None:
        return [f"{name}: is gone"]
    fields = {f.number: f for f in new.field}
    reserved = {n for r in new.reserved_range for n in range(r.start, r.end)}
    lines = []
    for field in old.field:
        now = fields.get(field.number)
        if now is None:
            if field.number not in reserved:
                lines.append(
                    f"{name}: number {field.number} ({field.name}) is gone and not reserved"
                )
        elif meaning(field, old) != meaning(now, new):
            lines.append(f"{name}.{field.name}: is not what it was")
    return lines


def meaning(field, message):
    """All that a peer relies on: name, kind, and which alternative it belongs to."""
    oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""
    return (field.name, field.type, field.type_name, field.label, field.proto3_optional, oneof)


def indexed(descriptors):
    messages, enums = {}, {}

    def add(prefix, message):
        name = f"{prefix}.{message.name}"
        messages[name] = message
        enums.update({f"{name}.{e.name}": e for e in message.enum_type})
        for nested in message.nested_type:
            add(name, nested)

    for file in descriptors.file:
        enums.update({f"{file.package}.{e.name}": e for e in file.enum_type})
        for message in file.message_type:
            add(file.package, message)
    return messages, enums
