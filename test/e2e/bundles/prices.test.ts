import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { moneyBundle, PRICES } from '../../support/llm/money-proxy.ts'
import { command, type Said } from '../../support/service/command.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

const BAD_PRICES: readonly (readonly [what: string, options: Parameters<typeof moneyBundle>[1], sentence: string])[] = [
  [
    'no table',
    { prices: {} },
    `policies[0].spec.rules[0].algorithm_config.prices: expected the name of a table in the bundle's prices (it has none), got "main"`,
  ],
  [
    'a price below zero',
    { prices: { main: { '*': { input: -1, output: 1 } } } },
    'prices.main["*"].input: expected a price for a million tokens',
  ],
  [
    'a table without "*"',
    { prices: { main: { big: { input: 1, output: 1 } } } },
    'prices.main["*"]: expected a price for every other model, so that none is free by accident, but it is missing',
  ],
  ['an unknown period', { config: { period: '7d' } }, 'policies[0].spec.rules[0].algorithm_config.period: expected '],
  [
    'an unknown time zone',
    { config: { timezone: 'Mars/Olympus' } },
    'policies[0].spec.rules[0].algorithm_config.timezone: expected an IANA time zone',
  ],
]

describe('edge validate', () => {
  const owner = thisSuite()
  let directory: string
  let validated: Said
  beforeAll(async () => {
    directory = await scratchDirectory(owner)
    const files = BAD_PRICES.map((_, i) => fileOf(i))
    for (const [i, [, options]] of BAD_PRICES.entries()) await writeFile(files[i]!, JSON.stringify(moneyBundle(1, options)))
    validated = await command('validate', ...files)
  })

  test.each(BAD_PRICES.map(([what, , sentence], i) => ({ what, sentence, i })))('names $what', ({ sentence, i }) => {
    expect(validated.status).toBe(1)
    expect(validated.stderr.replace(/\.json:1:\d+: /g, '.json: ')).toContain(`${fileOf(i)}: error: ${sentence}`)
  })

  function fileOf(i: number): string {
    return join(directory, `bundle-${i}.json`)
  }
})

test('a bundle with bad prices is refused, and the active one stays with its counts', async () => {
  const edge = await running({ clock: new ManualClock(), bundle: moneyBundle(1) })
  expect((await edge.decide()).headers['ratelimit-remaining']).toBe('2000')
  await offer(edge, moneyBundle(2, { prices: { other: PRICES.main } }))
  expect(edge.log.some(({ event }) => event === 'bundle_refused')).toBe(true)
  expect((await edge.decide({ uri: '/' })).status).toBe(429)
})
