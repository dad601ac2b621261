import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readUsageLine } from './usage-reader.ts'
import { ExactSum, exactMoneyText, UsageSums } from './usage-sums.ts'

const TIME = '2026-11-18T10:00:00.000Z'

test('rows beyond the limit are one row, and nothing is lost', () => {
  const report = new UsageSums(['caller:team'], undefined, { rows: 2, characters: 1000 })
  for (const team of ['a', 'b', 'c', 'd', 'a'])
    report.add({ time: TIME, labels: { 'caller:team': team }, rules: [{ policy: 'p', rule: 'r', tokens: 1 }] })
  expect(report.rows.map(({ values, requests }) => [...values, Number(requests.value)])).toEqual([
    ['a', 2],
    ['b', 1],
  ])
  expect([report.others!.charged.value, report.total.charged.value]).toEqual([2n, 5n])
})

test('rows that are long are fewer', () => {
  const report = new UsageSums(['caller:team', 'header:x-a'], undefined, { rows: 1000, characters: 1000 })
  for (let i = 0; i < 20; i++) {
    const labels = { 'caller:team': `${i}`, 'header:x-a': 'x'.repeat(256) }
    report.add({ time: TIME, labels, rules: [{ policy: 'p', rule: 'r', tokens: 1 }] })
  }
  expect(report.rows).toHaveLength(3)
  expect(report.others!.requests.value).toBe(17n)
})

test('a label of another program is a text, a number or missing', () => {
  const report = new UsageSums(['header:a', 'model'], undefined)
  for (const odd of ['{"toString":1}', 'null', 'true', '[1]', '7'])
    report.add(
      readUsageLine(`{"time":"${TIME}","model":${odd},"labels":{"header:a":${odd}},"rules":[{"policy":"p","rule":"r","tokens":1}]}`)!,
    )
  expect(report.rows.map(({ values, requests }) => [...values, Number(requests.value)])).toEqual([
    [undefined, undefined, 4],
    ['7', '7', 1],
  ])
})

test.each(['2026-11-18T10:00:00', '2026-11-18T10:00:00+02:00', '2026-11-18T25:00:00Z', '2026-11-18T10:00:00.000Zulu', 7, null])(
  'a line of %j is none of the log, because nobody knows in which hour it is',
  (time) => {
    const line = (of: unknown): string => JSON.stringify({ time: of, rules: [{ policy: 'p', rule: 'r', tokens: 1 }] })
    expect(readUsageLine(line(TIME))).toBeDefined()
    expect(readUsageLine(line(time))).toBeUndefined()
  },
)

test('a request that several rules charge costs what the highest of them charged, or each its own', () => {
  const rules = [
    { policy: 'p', rule: 'a', cost_nanos: 5 },
    { policy: 'p', rule: 'b', cost_nanos: 7 },
  ]
  const once = new UsageSums(['model'], undefined)
  once.add({ time: TIME, model: 'm', rules })
  expect(once.rows.map(({ cost }) => cost.value)).toEqual([7n])
  const each = new UsageSums(['rule'], undefined)
  each.add({ time: TIME, model: 'm', rules })
  expect(each.rows.map(({ values, cost }) => [...values, cost.value])).toEqual([
    ['p/b', 7n],
    ['p/a', 5n],
  ])
  expect(each.total.requests.value).toBe(1n)
})

test('a sum is exact, however large', () => {
  fc.assert(
    fc.property(fc.array(fc.maxSafeNat()), (amounts) => {
      const sum = new ExactSum()
      for (const amount of amounts) sum.add(amount)
      expect(sum.value).toBe(amounts.reduce((all, amount) => all + BigInt(amount), 0n))
    }),
  )
})

test('money is written exactly, with two decimals at least', () => {
  fc.assert(
    fc.property(fc.bigInt(0n, 10n ** 24n), (nanos) => {
      const [whole, fraction] = exactMoneyText(nanos).split('.') as [string, string]
      expect(BigInt(whole + fraction.padEnd(9, '0'))).toBe(nanos)
      expect(fraction.length).toBeGreaterThanOrEqual(2)
    }),
  )
})
