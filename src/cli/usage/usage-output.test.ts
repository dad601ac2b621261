import { expect, test } from 'vitest'
import { UsageSums } from '../../usage-log/usage-sums.ts'
import { usageCsv, usageJson, usageTable } from './usage-output.ts'

function reportOf(...teams: string[]): UsageSums {
  const sums = new UsageSums(['caller:team'], undefined)
  // The dearest comes first.
  for (const [i, team] of teams.entries())
    sums.add({ time: '2026-11-18T10:00:00Z', labels: { 'caller:team': team }, rules: [{ policy: 'p', rule: 'r', cost_nanos: 99 - i }] })
  return sums
}

test.each([
  ['=cmd()', "'=cmd()"],
  ['+1', "'+1"],
  ['-1', "'-1"],
  ['@SUM(A1)', "'@SUM(A1)"],
  ['\t=1', "'\t=1"],
  ['\r=1', `"'\r=1"`],
  ['\n=1', `"'\n=1"`],
  ['\uff1d1', "'\uff1d1"],
  ['a"b\nc', '"a""b\nc"'],
  ['\u001b[31m\u009b31m', '\ufffd[31m\ufffd31m'],
  ['__proto__', '__proto__'],
])('%j is a text in CSV, and no formula or order to a terminal', (team, cell) => {
  expect(usageCsv(reportOf(team))).toBe(`caller:team,requests,input,cached_input,output,charged,cost\r\n${cell},1,0,0,0,0,0.000000099\r\n`)
})

test('JSON has every value, and nothing that a terminal obeys', () => {
  const teams = ['\u009b31m', '\u202eevil', '__proto__', 'a\nb']
  const json = usageJson(reportOf(...teams), { unreadable: 2, damaged: ['f: its compressed data ends early'] })
  expect(json).not.toMatch(/[\u0080-\u009f\u202e]/)
  const { rows, ...rest } = JSON.parse(json) as { rows: { values: Record<string, string> }[] }
  expect(rows.map(({ values }) => values['caller:team'])).toEqual(teams)
  expect(rest).toMatchObject({ unreadable_lines: 2, damaged_files: ['f: its compressed data ends early'] })
})

test('a long value does not make all rows of a table long', () => {
  const lines = usageTable(reportOf('x'.repeat(256), 'red')).split('\n')
  expect(lines[1]).toContain(`${'x'.repeat(79)}… `)
  expect(lines[1]).not.toContain('x'.repeat(80))
})
