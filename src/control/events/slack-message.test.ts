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

test('no value of a caller is a link, or turns the text around', () => {
  const text = textOf({ ...WARNING, labels: { 'caller:team': 'https://evil.example WWW.evil.example \u202eeman\u0007' } })
  expect(text).toContain('https:\u200b//evil.example W\u200bWW.evil.example \\u{202e}eman\\u{7}')
})

test('a policy in shadow mode says so', () => {
  expect(textOf({ ...WARNING, mode: 'shadow' })).toContain(', mode shadow, percent 80')
})

test.each(['x', '&', '<', '_', '😀', '\ud83d', '\u0000'])(
  'a message of %j is of a length that Slack takes, and no character is cut',
  (character) => {
    const text = textOf(...Array.from({ length: 40 }, () => ({ ...WARNING, labels: { 'caller:team': character.repeat(1100) } })))
    expect(text.split('\n')).toHaveLength(31)
    expect(text.split('\n').at(-1)).toBe('and 10 more')
    expect(text.length).toBeLessThan(40_000)
    expect(text.isWellFormed()).toBe(true)
    expect(text).not.toMatch(/&(?!amp;|lt;|gt;)/)
  },
)

test('a chat hears of budgets and problems, not of requests', () => {
  expect(['budget_warning', 'usage_not_written', 'usage_written_again', 'reject', 'bundle_applied'].map(isForChat)).toEqual([
    true,
    true,
    true,
    false,
    false,
  ])
})
