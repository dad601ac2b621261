import { expect, test } from 'vitest'
import { isForChat, slackBody } from './slack-message.ts'

const WARNING = {
  level: 'warn',
  time: '2026-11-18T10:00:00.000Z',
  event: 'budget_warning',
  policy: 'teams',
  rule: 'money',
  mode: 'enforce',
  percent: 80,
  caller: '5e0f00000000abcd',
  unlogged: 0,
  labels: { 'caller:team': 'search' },
  msg: 'a caller has spent or reserved 80 % of its budget',
}

function textOf(...events: object[]): string {
  return (JSON.parse(slackBody(events.map((event) => JSON.stringify(event)))) as { text: string }).text
}

test('a warning says who has spent how much of what', () => {
  expect(textOf(WARNING).replaceAll('\u200b', '')).toBe(
    'edge: a caller has spent or reserved 80 % of its budget (budget_warning): policy teams, rule money, percent 80, caller 5e0f00000000abcd, caller:team search',
  )
})

test('no value of a caller is markup, and none has lines of its own', () => {
  const text = textOf({ ...WARNING, labels: { 'caller:team': '<!channel> & *all*\nedge: fine' } })
  expect(text).toContain('caller:team &lt;!channel&gt; &amp; \u200b*all\u200b* edge: fine')
  expect(text.split('\n')).toHaveLength(1)
  expect(text).not.toMatch(/<|>|&(?!amp;|lt;|gt;)/)
})

test('a message is of a length that is read', () => {
  const text = textOf(...Array.from({ length: 500 }, () => ({ ...WARNING, labels: { 'caller:team': 'x'.repeat(5000) } })))
  expect(text.split('\n')).toHaveLength(31)
  expect(text.split('\n').at(-1)).toBe('and 470 more')
  expect(text.length).toBeLessThan(40_000)
})

test('a chat hears of budgets and problems, not of requests', () => {
  expect(['budget_warning', 'usage_not_written', 'usage_written_again', 'reject', 'bundle_applied'].map(isForChat)).toEqual([
    true,
    true,
    true,
    false,
    false,
  ])
})
