"""What axe-core finds in a page: https://github.com/dequelabs/axe-core."""

GRAVE = ("serious", "critical")


def findings(driver, axe):
    """All findings of a page that is shown: (impact, rule, the elements)."""
    driver.execute_script(axe)
    found = driver.execute_async_script("""
        const done = arguments[arguments.length - 1];
        axe.run(document, {resultTypes: ['violations']}).then((got) => done({
            passes: got.passes.length,
            violations: got.violations.map((v) => [v.impact, v.id, v.nodes.map((n) => n.target.join(' ')).slice(0, 5)]),
        }), (error) => done({error: String(error)}));""")
    assert found.get("passes", 0) > 10, found  # it has looked
    return [tuple(one[:2]) + (", ".join(one[2]),) for one in found["violations"]]


def grave(driver, axe):
    return [one for one in findings(driver, axe) if one[0] in GRAVE]
