const wire = process.env['EDGE_TEST_PROXY_WIRE']

/** What reads the proxy's requests wherever a test does not say: the program's own choice, or what a second run of the same tests sets here. */
export const PROXY_WIRE: Readonly<Record<string, string>> = wire === undefined ? {} : { EDGE_PROXY_WIRE: wire }

/** All there are, for tests that run on each. */
export const PROXY_WIRES = ['own', 'node'] as const
