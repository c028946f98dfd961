"""Against rclpy, which is the one to follow."""

import pytest
import rclpy

from deadline_perception.nodes.parameter_file import (
    ParameterFileError,
    parameters_of,
    read_sections,
)

FILES = {
    'bare': 'detector: {ros__parameters: {threads: 1}}',
    'absolute': '/detector: {ros__parameters: {threads: 1}}',
    'of one robot': '/front/detector: {ros__parameters: {threads: 1}}',
    'of one robot, no slash': 'front/detector: {ros__parameters: {threads: 1}}',
    'nested': 'front: {detector: {ros__parameters: {threads: 1}}, time_budget: {ros__parameters: {threads: 2}}}',
    'nested deeper': '/robot: {front: {detector: {ros__parameters: {threads: 1}}}}',
    'all': '/**: {ros__parameters: {threads: 1}}',
    'all, no slash': '"**": {ros__parameters: {threads: 1}}',
    'anywhere': '/**/detector: {ros__parameters: {threads: 1}}',
    'anywhere, nested': '/**: {detector: {ros__parameters: {threads: 1}}}',
    'one part': '/*/detector: {ros__parameters: {threads: 1}}',
    'any node of a robot': '/front/*: {ros__parameters: {threads: 1}}',
    'the last counts': '/**: {ros__parameters: {threads: 1}}\n/front/detector: {ros__parameters: {threads: 2}}',
    'the last counts, all': '/front/detector: {ros__parameters: {threads: 2}}\n/**: {ros__parameters: {threads: 1}}',
    'another': '/rear/detector: {ros__parameters: {threads: 1}}',
    'begins alike': '/front/detector2: {ros__parameters: {threads: 1}}',
}
SHIPPED = '/**/detector: {ros__parameters: {threads: 5, model: compact}}'


@pytest.fixture
def asked(tmp_path):
    """What rclpy gives to a node whose process gets the files."""

    def ask(node, files):
        words = [word for file in files for word in ('--params-file', str(file))]
        context = rclpy.Context()
        rclpy.init(args=['--ros-args', *words], context=context)
        namespace, _, name = node.rpartition('/')
        made = rclpy.create_node(name, namespace=namespace or '/', context=context)
        given = {name: parameter.value for name, parameter in made._parameter_overrides.items()}
        made.destroy_node()
        context.try_shutdown()
        return given

    return ask


@pytest.mark.parametrize('node', ['/detector', '/front/detector', '/robot/front/detector'])
def test_a_node_has_the_parameters_that_rclpy_gives_it(asked, tmp_path, node):
    (tmp_path / 'shipped.yaml').write_text(SHIPPED)
    found, wanted = {}, {}
    for case, text in FILES.items():
        own = tmp_path / f'{case}.yaml'
        own.write_text(text)
        files = [tmp_path / 'shipped.yaml', own]
        found[case], wanted[case] = parameters_of(node, read_sections(files)), asked(node, files)
    assert found == wanted
    assert len({values['threads'] for values in wanted.values()}) > 1


@pytest.mark.parametrize(
    ('text', 'complaint'),
    [
        ('detector: [', 'expected the node content'),
        ('detector: 5', "/detector is '5', expected nodes"),
        ('detector:', 'expected nodes'),
        ('- a\n- b', 'its content is'),
        ('ros__parameters: {threads: 1}', 'of a node by name'),
        ('a: {ros__parameters: [1]}', 'of a node by name'),
        ('/a(/detector: {ros__parameters: {threads: 1}}', r'ros__parameters of /a\(/detector is'),
        ('a: ' + '[' * 100_000, 'nested too deeply'),
        ('{a: ' * 100_000, 'nested too deeply'),
    ],
)
def test_an_unusable_file_is_refused_in_one_line(tmp_path, text, complaint):
    file = tmp_path / 'own.yaml'
    file.write_text(text)
    with pytest.raises(ParameterFileError, match=complaint) as caught:
        read_sections([file])
    assert str(caught.value).startswith(f'parameter file {file} cannot be used: ')
    assert '\n' not in str(caught.value)
