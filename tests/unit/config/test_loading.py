"""Settings from file, environment and options; and all mistakes at once."""

from __future__ import annotations

import socket

import pytest

from llmgw.config.declaring import Form
from llmgw.config.loading import load_agent, load_gateway, load_server
from llmgw.config.settings import AgentSettings, ServerSettings, TlsFiles
from llmgw.errors import SettingsInvalid

MODEL = """
models:
  - name: chat
    source: /models/chat.gguf
    scaling: {min: 1}
    profiles: [{name: cpu, engine: llamacpp}]
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        file = tmp_path / "settings.yaml"
        file.write_text(text)
        return file

    return write


@pytest.fixture
def mistakes(written):
    """The mistakes of a file and an environment, ``path: message`` each."""

    def find(text, *, load=load_server, **environ):
        with pytest.raises(SettingsInvalid) as refused:
            load(written(text), environ=environ)
        return [str(problem) for problem in refused.value.problems]

    return find


def test_nothing_given_is_the_defaults():
    assert load_server(None, environ={}) == ServerSettings()


def test_an_empty_file_is_the_defaults(written):
    assert load_server(written("# nothing yet\n"), environ={}) == ServerSettings()


def test_an_empty_section_is_its_defaults(written):
    assert load_server(written("router:\nlog:\n"), environ={}) == ServerSettings()


def test_file_then_environment_then_options_win(written):
    file = written("listen: ':1'\nadmin_listen: ':2'\nagent_listen: ':3'\ngateway: {workers: 2}\n")
    settings = load_server(
        file,
        environ={"LLMGW_ADMIN_LISTEN": ":22", "LLMGW_AGENT_LISTEN": ":33", "PATH": "/bin"},
        overrides={"agent_listen": ":333", "control.enabled": False},
    )
    assert settings.listen == ":1"
    assert settings.admin_listen == ":22"
    assert settings.agent_listen == ":333"
    assert settings.gateway.workers == 2
    assert settings.control.enabled is False


@pytest.mark.parametrize(
    ("variable", "text", "read"),
    [
        pytest.param("LLMGW_LISTEN", "[::1]:0", lambda s: s.listen == "[::1]:0", id="address"),
        pytest.param(
            "LLMGW_ROUTER__DISPATCH__MAX_ATTEMPTS",
            "7",
            lambda s: s.router.dispatch.max_attempts == 7,
            id="whole number",
        ),
        pytest.param(
            "LLMGW_CONTROL__INTERVAL", "250ms", lambda s: s.control.interval == 0.25, id="duration"
        ),
        pytest.param(
            "LLMGW_ROUTER__LIMITS__MAX_BODY_BYTES",
            "1MiB",
            lambda s: s.router.limits.max_body_bytes == 1048576,
            id="size",
        ),
        pytest.param(
            "LLMGW_CONTROL__ENABLED", "false", lambda s: s.control.enabled is False, id="bool"
        ),
        pytest.param(
            "LLMGW_CONTROL__EXPECT_NODES",
            "n1, n2",
            lambda s: s.control.expect_nodes == ("n1", "n2"),
            id="list with commas",
        ),
        pytest.param(
            "LLMGW_CONTROL__PORT_RANGE",
            "[30000, 30009]",
            lambda s: s.control.port_range == (30000, 30009),
            id="ports",
        ),
        pytest.param("LLMGW_AGENT_TLS", "insecure", lambda s: s.agent_tls == "insecure", id="word"),
        pytest.param(
            "LLMGW_AGENT_TLS",
            "{ca: a, cert: b, key: c}",
            lambda s: s.agent_tls == TlsFiles(ca="a", cert="b", key="c"),
            id="section",
        ),
        pytest.param(
            "LLMGW_ENDPOINTS",
            '[{"id": "e", "url": "http://h:1/", "models": ["m"]}]',
            lambda s: s.endpoints[0].url == "http://h:1",
            id="list of sections",
        ),
    ],
)
def test_every_kind_of_setting_can_come_from_the_environment(variable, text, read):
    assert read(load_server(None, environ={variable: text}))


def test_one_setting_of_a_section_comes_from_the_environment_and_the_rest_from_the_file(written):
    file = written("router: {dispatch: {deadline_s: 1m}}\n")
    dispatch = load_server(
        file, environ={"LLMGW_ROUTER__DISPATCH__MAX_ATTEMPTS": "2"}
    ).router.dispatch
    assert (dispatch.deadline_s, dispatch.max_attempts) == (60.0, 2)


def test_models_of_the_file_turn_the_control_plane_on(written):
    settings = load_server(written(MODEL + "agent_tls: insecure\n"), environ={})
    assert settings.models[0].name == "chat"
    assert settings.has_control_plane


def test_five_mistakes_are_five(mistakes):
    found = mistakes(
        "listen: 8080\n"
        "router: {retries: 3}\n"
        "control: {lost_after: 5s, interval: soon}\n"
        "log: {level: loud}\n"
    )
    assert found == [
        "listen: 8080 is not an address such as :8080, 127.0.0.1:8080 or [::1]:8080",
        "log.level: 'loud' is not one of debug, info, warning, error",
        "router.retries: unknown key; the setting is router.dispatch.max_attempts",
        f"control.interval: 'soon' is not {Form.SECONDS.value}",
        "control.lost_after: 5s is not longer than control.unreachable_after, 15s",
    ]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        pytest.param("lisen: ':1'", "lisen: unknown key; did you mean listen?", id="misspelt"),
        pytest.param(
            "log: {colour: red}", "log.colour: unknown key; legal here: level, format", id="strange"
        ),
        pytest.param(
            "log: loud", "log: 'loud' is not a section with level, format", id="no section"
        ),
        pytest.param(
            "gateway: {workers: 0}", "gateway.workers: 0 is too small: give at least 1", id="small"
        ),
        pytest.param(
            "gateway: {workers: 65}",
            "gateway.workers: 65 is too large: give at most 64",
            id="large",
        ),
        pytest.param(
            "gateway: {workers: yes}", "gateway.workers: True is not a whole number", id="yes"
        ),
        pytest.param(
            "gateway: {workers: 1.5}", "gateway.workers: 1.5 is not a whole number", id="fraction"
        ),
        pytest.param(
            "state_dir: 2026-11-30",
            "state_dir: 2026-11-30 is not a text; put it in quotes",
            id="a date is no text",
        ),
        pytest.param(
            "control: {port_range: [30000, 20000]}",
            "control.port_range: [30000, 20000] is not a list of the first and the last port, "
            "such as [20000, 20999]",
            id="ports backwards",
        ),
        pytest.param(
            "control: {port_range: [1, 70000]}",
            "control.port_range: [1, 70000] is not a list of the first and the last port, "
            "such as [20000, 20999]",
            id="ports too high",
        ),
        pytest.param(
            "agent_tls: {ca: a, cert: b}", "agent_tls.key: is required: a text", id="two of three"
        ),
        pytest.param(
            "agent_tls: off",
            "agent_tls: False is not a section with ca, cert, key or insecure",
            id="tls off",
        ),
        pytest.param(
            "agent_tls: none",
            "agent_tls: 'none' is not a section with ca, cert, key or insecure",
            id="tls none",
        ),
        pytest.param(
            "admin_listen: ':8080'", "admin_listen: ':8080' is taken by listen, ':8080'", id="port"
        ),
        pytest.param(
            "admin_listen: 127.0.0.1:8080",
            "admin_listen: '127.0.0.1:8080' is taken by listen, ':8080'",
            id="port on one address of all",
        ),
        pytest.param(
            "router: {breaker: {open_s: 2m}}",
            "router.breaker.open_max_s: 1m is shorter than router.breaker.open_s, 2m",
            id="bounds crossed",
        ),
        pytest.param(
            "admission: {bands: [{name: gold, ceiling: 0.8}, {name: low, ceiling: 0.8}]}",
            "admission.bands: the ceiling of 'low', 0.8, is not lower than that of 'gold', 0.8",
            id="bands that are one",
        ),
        pytest.param(
            "admission: {bands: [{name: high}], default_band: gold}",
            "admission.default_band: 'gold' is none of high",
            id="no such band",
        ),
        pytest.param(
            "control: {expect_nodes: [a_b]}",
            "control.expect_nodes[0]: 'a_b' is no node name: letters, digits, dots and dashes, "
            "at most 63, no dash at an end",
            id="node name",
        ),
        *(
            pytest.param(
                f"endpoints: [{{id: e, url: '{url}', models: [m]}}]",
                f"endpoints[0].url: '{url}' is not an address such as http://10.0.0.5:8000",
                id=f"address {url}",
            )
            for url in ("http://[::1", "http://h:99999", "http://h:0", "http://:80", "http://a b")
        ),
        *(
            pytest.param(
                f"endpoints: [{{id: e, url: '{url}', models: [m]}}]",
                f"endpoints[0].url: '{url}' is not an address such as http://10.0.0.5:8000{more}",
                id=f"address {url}",
            )
            for url, more in (
                ("http://h/?a=b", ", without ? and #"),
                ("http://h#a", ", without ? and #"),
                ("http://häuser:80", ""),
            )
        ),
        *(
            pytest.param(
                f"endpoints: [{{id: e, url: 'http://h', models: [m, {written}]}}]",
                f"endpoints[0].models[1]: {shown} is not a name: 1 to 200 printable ASCII "
                "characters, no space among them",
                id=f"model {written}",
            )
            for written, shown in (
                ('""', "''"),
                ('"a b"', "'a b'"),
                ('"a\\nb"', "'a\\nb'"),
                ('"ä"', "'ä'"),
                (f'"{"x" * 201}"', f"'{'x' * 56}…"),
            )
        ),
        pytest.param(
            'endpoints: [{id: "a\\nb", url: "http://h", models: [m]}]',
            "endpoints[0].id: 'a\\nb' is not a name: 1 to 200 printable ASCII characters, no space "
            "among them",
            id="endpoint id with a line break",
        ),
        pytest.param(
            "admission: {bands: [{name: 'a b'}], default_band: a}",
            "admission.bands[0].name: 'a b' is not a name: 1 to 200 printable ASCII characters, "
            "no space among them",
            id="band name with a space",
        ),
        *(
            pytest.param(
                f"{group}: {{{key}: '{written}'}}",
                f"{group}.{key}: '{written}' is not the name of a header field: letters, digits "
                "and -_.!#$%&'*+^`|~",
                id=f"{key} {written}",
            )
            for group, key in (("router", "session_header"), ("admission", "band_header"))
            for written in ("x-sessiön", "x band", "x:", "")
        ),
        *(
            pytest.param(
                f"router: {{kv_ceiling: {number}}}",
                f"router.kv_ceiling: {shown} is not a number",
                id=number,
            )
            for number, shown in ((".inf", "inf"), (".nan", "nan"))
        ),
        pytest.param(
            f"router: {{target_waiting: 1{'0' * 400}}}",
            f"router.target_waiting: 1{'0' * 56}… is not a number",
            id="number that no number holds",
        ),
        pytest.param(
            "endpoints: [{id: e, url: 'ftp://h', models: [m]}]",
            "endpoints[0].url: 'ftp://h' is not an address such as http://10.0.0.5:8000",
            id="item of a list",
        ),
        pytest.param(
            "endpoints: [{id: e, models: [m]}]",
            "endpoints[0].url: is required: an address such as http://10.0.0.5:8000",
            id="required in an item",
        ),
        pytest.param(
            "endpoints: [{id: e, url: 'http://h', models: []}]",
            "endpoints[0].models: is empty: name what is served there",
            id="endpoint without models",
        ),
        pytest.param(
            "endpoints:\n"
            "- {id: e, url: 'http://h', models: [m]}\n- {id: e, url: 'http://i', models: [m]}",
            "endpoints: the id 'e' is used more than once",
            id="two endpoints of one name",
        ),
        pytest.param(
            "listen: ':1'\nlisten: ':2'", "line 2: the key listen is written twice", id="twice"
        ),
        pytest.param("- a\n- b\n", "holds no sections: write `key: value` lines", id="a list"),
    ],
)
def test_a_mistake_says_where_it_is_what_was_given_and_what_is_legal(mistakes, text, mistake):
    assert mistakes(text) == [mistake]


def test_mistakes_of_models_are_listed_with_the_others(mistakes):
    found = mistakes("listen: 1\nmodels: [{name: m, source: /m, profiles: [{name: p, engine: x}]}]")
    assert len(found) == 2
    assert found[1].startswith("models[0].profiles[0].engine: 'x'") or found[0].startswith("models")


def test_a_password_in_an_address_is_refused_and_not_repeated(mistakes):
    text = "endpoints: [{id: e, url: 'http://user:verysecret@h', models: [m]}]"
    [mistake] = mistakes(text)
    assert mistake.startswith("endpoints[0].url: what is written holds a user or a password")
    assert "verysecret" not in mistake


def test_a_secret_in_plain_text_is_refused_and_not_repeated(mistakes):
    text = "endpoints: [{id: e, url: 'http://h', models: [m], api_key: sk-verysecret}]"
    [mistake] = mistakes(text)
    assert mistake.startswith("endpoints[0].api_key: what is written is not a reference")
    assert "sk-verysecret" not in mistake


def test_a_contradiction_that_rests_on_a_mistake_is_not_told(mistakes):
    found = mistakes("control: {unreachable_after: soon, lost_after: 5s}")
    assert len(found) == 1


def test_an_open_agent_port_without_certificates_is_refused(mistakes):
    [mistake] = mistakes(MODEL)
    assert mistake.startswith("agent_tls: is required, for agent_listen is ':7443'")


def test_plaintext_on_loopback_needs_no_word(written):
    settings = load_server(written(MODEL + "agent_listen: 127.0.0.1:7443\n"), environ={})
    assert settings.agent_tls is None


def test_endpoints_beside_a_control_plane_are_refused(mistakes):
    text = MODEL + "agent_tls: insecure\nendpoints: [{id: e, url: 'http://h', models: [m]}]"
    [mistake] = mistakes(text)
    assert mistake.startswith("endpoints: are only for a server without a control plane")


def test_a_mistake_in_the_environment_names_the_variable(mistakes):
    assert mistakes("", LLMGW_GATEWAY__WORKERS="many") == [
        "gateway.workers: 'many' (from LLMGW_GATEWAY__WORKERS) is not a whole number"
    ]


def test_a_variable_that_sets_nothing_is_a_mistake(mistakes):
    assert mistakes("", LLMGW_LISTN=":1") == [
        "LLMGW_LISTN: sets nothing; did you mean LLMGW_LISTEN?"
    ]


def test_a_variable_that_is_near_to_none_gets_no_far_fetched_guess(mistakes):
    assert mistakes("", LLMGW_FOO__BAR="1") == [
        "LLMGW_FOO__BAR: sets nothing; the settings reference has every name"
    ]


def test_variables_of_the_other_role_and_of_ctl_are_left_alone():
    environ = {"LLMGW_HEARTBEAT_INTERVAL": "1s", "LLMGW_CTL_URL": "http://h:1"}
    assert load_server(None, environ=environ) == ServerSettings()


def test_a_broken_yaml_file_is_told_with_its_line(mistakes):
    [mistake] = mistakes("listen: ':1'\nrouter: {dispatch\n")
    assert mistake.startswith("is no YAML: line 3, column 1")


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(SettingsInvalid) as refused:
        load_server(tmp_path / "none.yaml", environ={})
    assert [str(p) for p in refused.value.problems] == ["cannot be read: No such file or directory"]
    assert str(refused.value) == f"{tmp_path / 'none.yaml'}: 1 mistake"


@pytest.mark.parametrize("content", [None, b"server: \xff", b"server: {", b"- server"])
def test_a_file_that_cannot_be_read_is_not_blamed_for_what_it_may_say(tmp_path, content):
    file = tmp_path / "agent.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsInvalid) as refused:
        load_agent(file, environ={})
    assert [problem.path for problem in refused.value.problems] == [""]


def test_a_file_that_is_no_text_is_told(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_bytes(b"listen: \xff\xfe\n")
    with pytest.raises(SettingsInvalid) as refused:
        load_server(file, environ={})
    assert [str(p) for p in refused.value.problems] == ["is no text in UTF-8"]


@pytest.mark.parametrize(
    "text", ["listen: 2026-13-01", "listen: \x07", "? [a, b]\n: c", "a: &x 1\nb: *y"]
)
def test_what_yaml_cannot_read_is_one_mistake(mistakes, text):
    [mistake] = mistakes(text)
    assert mistake.startswith("is no YAML: ")


def agent(**environ):
    return load_agent(None, environ={f"LLMGW_{name}": text for name, text in environ.items()})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("/usr/bin/llama-server", "/usr/bin/llama-server", id="path"),
        pytest.param("[env, llama-server]", ("env", "llama-server"), id="words"),
    ],
)
def test_a_program_is_a_path_or_a_list_of_words_in_file_and_environment(written, text, words):
    file = written(f"server: http://h:1\nengines: {{llamacpp: {{bin: {text}}}}}\n")
    assert load_agent(file, environ={}).engines.llamacpp.bin == words
    assert agent(SERVER="http://h:1", ENGINES__LLAMACPP__BIN=text).engines.llamacpp.bin == words


def test_an_agent_is_made_whole():
    settings = agent(SERVER="127.0.0.1:7443", MODEL_DIRS="/a")
    hostname = socket.gethostname()
    assert settings == AgentSettings(
        server="http://127.0.0.1:7443",
        servers=("http://127.0.0.1:7443",),
        node_id=hostname,
        hostname=hostname,
        model_dirs=("/a", "/var/lib/llmgw-weights"),
    )


def test_what_an_agent_was_told_wins_over_what_it_finds():
    settings = agent(SERVER="http://h:1", NODE_ID="node05", HOSTNAME="five")
    assert (settings.node_id, settings.hostname) == ("node05", "five")


def test_servers_get_the_scheme_of_the_certificates_and_are_tried_once_each():
    tls = "{ca: a, cert: b, key: c}"
    settings = agent(SERVER="b", SERVERS="a:1,https://b:7443/,[::1]", TLS=tls)
    assert settings.servers == ("https://b:7443", "https://a:1", "https://[::1]:7443")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        pytest.param("", "server: is required: the agent port of a control plane", id="none"),
        pytest.param("server: gw:7443", "server: 'gw:7443' needs certificates", id="bare"),
        pytest.param("server: https://gw:1", "server: 'https://gw:1' needs certificates", id="tls"),
        pytest.param("server: gw", "server: 'gw' needs certificates", id="no port"),
        pytest.param("server: http://", "server: 'http:' is no address", id="nothing"),
        pytest.param("server: ':7443'", "server: ':7443' names no host", id="no host"),
        pytest.param("server: 'grpc://gw:1'", "server: 'grpc://gw:1' is not", id="scheme"),
        pytest.param(
            "servers: [http://a:1, b:1]", "servers[1]: 'b:1' needs certificates", id="later one"
        ),
        pytest.param(
            "server: http://gw:1\ntls: {ca: a, cert: b, key: c}",
            "server: 'http://gw:1' is plaintext, but tls has certificates",
            id="plaintext with certificates",
        ),
        pytest.param("server: http://h:1\nnode_id: a_b", "node_id: 'a_b' is no node name", id="id"),
        pytest.param(
            "server: http://h:1\nfabrics: [{name: f, hcas: [mlx5_0]}, {name: g, hcas: [mlx5_0]}]",
            "fabrics: the adapter 'mlx5_0' is in more than one fabric",
            id="shared adapter",
        ),
        pytest.param(
            "server: http://h:1\nfabrics: [{hcas: [mlx5_0]}]",
            "fabrics[0].name: is required",
            id="fabric without a name",
        ),
        pytest.param(
            "server: http://h:1\nlabels: {rack: 7}",
            "labels.rack: 7 is not a text; put it in quotes",
            id="label",
        ),
        pytest.param(
            "server: http://h:1\nreconnect_base: 1m",
            "reconnect_max: 30s is shorter than reconnect_base, 1m",
            id="waits crossed",
        ),
        pytest.param("server: gw:1\ntls: {ca: a, cert: b}", "tls.key: is required", id="no key"),
    ],
)
def test_mistakes_of_an_agent(mistakes, text, mistake):
    found = mistakes(text, load=load_agent)
    assert len(found) == 1
    assert found[0].startswith(mistake)


@pytest.mark.parametrize("hostname", ["my_box", "gateway-7"])
def test_a_hostname_that_is_no_node_name_asks_for_a_name(monkeypatch, hostname):
    monkeypatch.setattr(socket, "gethostname", lambda: hostname)
    with pytest.raises(SettingsInvalid) as refused:
        agent(SERVER="http://h:1")
    assert str(refused.value.problems[0]).startswith("node_id: is required, for the hostname")


def test_a_commands_own_default_holds_only_where_nobody_says_otherwise(tmp_path):
    file = tmp_path / "server.yaml"
    file.write_text("listen: ':1111'\ngateway: {workers: 2}\n")
    settings = load_server(
        file,
        environ={"LLMGW_ADMIN_LISTEN": "127.0.0.1:2222"},
        defaults={
            "listen": "127.0.0.1:9",
            "admin_listen": "127.0.0.1:9",
            "gateway.workers": 3,
            "gateway.drain_delay_s": 0,
            "log.level": "warning",
        },
    )
    assert (settings.listen, settings.admin_listen) == (":1111", "127.0.0.1:2222")
    assert (settings.gateway.workers, settings.gateway.drain_delay_s) == (2, 0)
    assert settings.log.level == "warning"


def test_a_mistaken_section_stays_a_mistake_beside_defaults(tmp_path):
    file = tmp_path / "server.yaml"
    file.write_text("gateway: 3\n")
    with pytest.raises(SettingsInvalid, match="1 mistake"):
        load_server(file, environ={}, defaults={"gateway.workers": 3})


def test_a_gateway_is_made_whole_with_its_name_and_every_server(written, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "host7")
    file = written(
        "server: cp1\nservers: ['cp2:7444', cp1]\ntls: {ca: a, cert: b, key: c}\n"
        "gateway: {workers: 3}\n"
    )
    settings = load_gateway(file, environ={"LLMGW_LOG__LEVEL": "debug"})
    assert settings.name == "host7"
    assert settings.servers == ("https://cp1:7443", "https://cp2:7444")
    assert (settings.gateway.workers, settings.log.level) == (3, "debug")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param("name: gw01\n", "server", id="no server"),
        pytest.param("server: 'http://h'\nname: '-x'\n", "name", id="name"),
        pytest.param(f"server: 'http://h'\nname: {'x' * 56}\n", "name", id="long name"),
        pytest.param("server: 'cp1:7443'\n", "server", id="no certificates"),
        pytest.param(
            "server: 'http://h'\nreconnect_base: 5\nreconnect_max: 1\n", "reconnect_max", id="waits"
        ),
        pytest.param(
            "server: 'http://h'\nlisten: ':1'\nadmin_listen: ':1'\n", "admin_listen", id="ports"
        ),
        pytest.param("server: 'http://h'\nmodels: []\n", "models", id="foreign key"),
    ],
)
def test_a_mistake_in_the_settings_of_a_gateway_is_named(written, text, path):
    with pytest.raises(SettingsInvalid) as raised:
        load_gateway(written(text), environ={})
    assert [problem.path for problem in raised.value.problems] == [path]


def test_no_node_is_called_like_the_certificate_of_a_gateway(written):
    with pytest.raises(SettingsInvalid) as raised:
        load_agent(written("server: 'http://h'\nnode_id: gateway-gw01\n"), environ={})
    assert "the certificate of a gateway" in str(raised.value.problems[0])
