import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { QUESTION_WAIT_MS } from '../../src/callers/key-sets/worker-key-sets.ts'
import { ROOT, readText } from './markdown.ts'

const EXAMPLES = 'examples/gateways'
const PAGES = 'docs/gateways'
/** They say what to use, and show no whole configuration. */
const WITHOUT_TIMEOUTS = ['cloud.md', 'envoy-gateway.md']

describe('the pages about gateways', () => {
  const gateways = readdirSync(join(ROOT, EXAMPLES))

  test.each(gateways)('%s: the page shows the very files that the tests start', (gateway) => {
    const blocks = codeBlocksOf(readText(`${PAGES}/${pageOf(gateway)}`))
    for (const file of readdirSync(join(ROOT, EXAMPLES, gateway))) {
      const text = readText(`${EXAMPLES}/${gateway}/${file}`)
      expect(blocks.includes(text), `${file} as it is, in a code block`).toBe(true)
    }
  })

  // A client can make edge wait for a key set, and a gateway that fails open would let it in.
  test.each(gatewayPages())('%s: no gateway gives up before edge has waited for a key set', (page) => {
    const timeouts = codeBlocksOf(readText(`${PAGES}/${page}`)).flatMap(timeoutsMs)
    for (const ms of timeouts) expect(ms).toBeGreaterThanOrEqual(2 * QUESTION_WAIT_MS)
    if (!WITHOUT_TIMEOUTS.includes(page)) expect(timeouts).not.toEqual([])
  })

  test('the table on top has every page', () => {
    const index = readText(`${PAGES}/README.md`)
    expect(gatewayPages().filter((page) => !index.includes(`](${page})`))).toEqual([])
  })
})

function gatewayPages(): string[] {
  return readdirSync(join(ROOT, PAGES)).filter((page) => page.endsWith('.md') && page !== 'README.md')
}

/** All timeouts of a configuration in milliseconds, but those of 0, which means none. */
function timeoutsMs(text: string): number[] {
  const found = text.matchAll(
    /timeouts?(?:_\w+)?(?: (?:connect|server|client|tunnel|http-request))?\s*[:=( ]\s*(\d+(?:\.\d+)?)(ms|s|m|h)?\b/gi,
  )
  return [...found].map(([, count, unit = 'ms']) => Number(count) * UNIT_MS[unit.toLowerCase()]!).filter((ms) => ms > 0)
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** Examples of one gateway may share a page: `envoy-ext-authz` and `envoy-rate-limit` would be on `envoy.md`. */
function pageOf(example: string): string {
  const pages = readdirSync(join(ROOT, PAGES))
  return pages.find((page) => page === `${example}.md`) ?? `${example.split('-')[0]}.md`
}

function codeBlocksOf(text: string): string[] {
  return [...text.matchAll(/^```\w*\n(.*?)^```$/gms)].map((block) => block[1]!)
}
