import { expect, test } from 'vitest'
import { readText } from '../../../test/docs/markdown.ts'
import { MEMBER_NAMES } from '../../usage-log/usage-sums.ts'
import { readUsageArguments, USAGE_HELP, UsageReportProblem } from './usage-arguments.ts'

test.each([
  ['--from', '2026-11-18T10:00+02:00'],
  ['--from', '2026-11-18t10:00z'],
  ['--from', '1763460000'],
  ['--to', '2026-11-18T24Z'],
  ['--to', '2026-13'],
  ['--to', ''],
  ['--by', '__proto__'],
  ['--by', 'model,,day'],
])('%s %j is refused with what was expected, and never read as something else', (option, text) => {
  expect(() => readUsageArguments([option, text, 'd'])).toThrow(UsageReportProblem)
  expect(() => readUsageArguments([option, text, 'd'])).toThrow(`${option}: expected`)
})

test('a month, a day, an hour and a moment are in UTC', () => {
  const times = (from: string, to: string): string[] => {
    const { fromMs, toMs } = readUsageArguments(['--from', from, '--to', to, 'd'])
    return [fromMs, toMs].map((ms) => new Date(ms).toISOString())
  }
  expect(times('2024-02', '2024-02-29')).toEqual(['2024-02-01T00:00:00.000Z', '2024-02-29T00:00:00.000Z'])
  expect(times('2026-11-18T10Z', '2026-11-18T10:30:15.5Z')).toEqual(['2026-11-18T10:00:00.000Z', '2026-11-18T10:30:15.500Z'])
})

test('the help and the documentation name the same members', () => {
  const [help] = /labels that the bundle names in\s+usage\.labels \(caller:team\), or ([^;]+);/.exec(USAGE_HELP)!.slice(1)
  expect(help!.split(/,\s+/)).toEqual(MEMBER_NAMES)
  const [page] = /`--by` takes labels of the bundle, and ([^.]+)\./.exec(readText('docs/usage.md'))!.slice(1)
  expect(page!.split(/,\s+|\s+and\s+/)).toEqual(MEMBER_NAMES.map((name) => `\`${name}\``))
})
