from deadline_perception.nodes.health import Health, Level, Report


def test_report_is_published_by_timer_with_level_message_and_details(observer, wait_for):
    reports = [Report(Level.WARN, 'too warm', {'degrees': 31.5, 'is_on': True})]
    health = Health(observer.node, lambda: reports[-1], hardware_id='oven')
    observer.wait_status('observer', level=1)
    assert observer.status('observer') == (1, 'too warm', {'degrees': '31.5', 'is_on': 'true'})
    reports.append(Report(Level.ERROR, 'on fire'))
    wait_for(lambda: observer.status('observer') == (2, 'on fire', {}), 'an error')
    assert health.hardware_id == 'oven'
