import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV } from '../support/admin/admin-client.ts'
import { bucketRule, budgetRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { expectFine, LOOKS } from '../support/console/looks.ts'
import { CHAT, fakeLlm, HELLO, HELLO_TOKENS, proxyEnv } from '../support/llm/llm-proxy.ts'
import { chatStream } from '../support/llm/llm-streams.ts'
import { PRICES } from '../support/llm/money-proxy.ts'
import { scriptedLlm } from '../support/llm/scripted-llm.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import { ask } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'

const RULES = [
  llmRule('all', [], { tokens_per_day: 20_000 }),
  llmRule('each', ['header:x-team'], { tokens_per_day: 1000 }),
  budgetRule('money', [], { budget: 100, period: '1d', prices: 'main' }),
]
const BUNDLE = { ...bundle(1, policy('llm', { rules: RULES })), prices: PRICES }
const TEAM = '<img src=x onerror=alert(1)>'

async function openLlm(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'LLM', exact: true }).click()
}

function cells(page: Page, table: string | RegExp, row: string | RegExp): Promise<string[]> {
  return page.getByRole('table', { name: table }).getByRole('row', { name: row }).getByRole('cell').allTextContents()
}

describeInBrowser('the view of tokens and money', () => {
  test('shows what is spent and left, of rules and of callers, as responses come', async () => {
    // Of one day and one minute, however long this takes.
    const clock = new ManualClock()
    const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, ...proxyEnv(await fakeLlm()) }, clock })
    const page = await loggedIn(edge.adminPort)
    await openLlm(page)
    await expect
      .poll(async () => (await cells(page, 'Budgets that all callers share', 'llm / all')).slice(0, 6))
      .toMatchObject(['tokens per day', '0 tokens', '0 tokens', '20,000 tokens (100%)', '20,000 tokens', 'full'])
    await page.getByText('No tokens were spent in the last 15 minutes.').waitFor()
    await page.getByLabel('6 h', { exact: true }).check()
    await page.getByText('No tokens were spent in the last 6 hours.').waitFor()
    await page.getByLabel('15 min', { exact: true }).check()
    await page.getByText('No caller with a budget was seen in the last ten minutes.').waitFor()
    const body = JSON.stringify({ model: 'big', messages: HELLO, max_tokens: 10 })
    const { usage } = JSON.parse((await ask(edge.port, 'POST', CHAT, [['X-Team', TEAM]], body)).body)
    clock.advance(2000) // the next sample is due
    const tokens = `${usage.total_tokens} tokens`
    // A prompt token costs a hundredth, a completion token two.
    const money = ((usage.prompt_tokens + 2 * usage.completion_tokens) / 100).toFixed(2)
    await expect.poll(async () => (await cells(page, 'Budgets that all callers share', 'llm / all'))[1]).toBe(tokens)
    await expect.poll(async () => (await cells(page, 'Budgets that all callers share', 'llm / money'))[1]).toBe(`${money} currency units`)
    await expect
      .poll(async () => (await cells(page, 'Budgets that all callers share', 'llm / money'))[3])
      .toMatch(new RegExp(`^${(100 - Number(money)).toFixed(2)} currency units `))
    await expect.poll(async () => (await cells(page, /^Callers nearest/, TEAM))[1]).toBe(tokens)
    for (const rule of ['llm / all', 'llm / each'])
      await expect.poll(async () => (await cells(page, 'Tokens and money spent by rule', rule)).slice(-3)).toEqual([tokens, tokens, tokens])
    await page.getByRole('table', { name: 'Tokens per second by rule' }).getByRole('row', { name: 'llm / each' }).waitFor()
    await page.getByRole('table', { name: 'Money per minute by rule, prices main' }).getByRole('row', { name: 'llm / money' }).waitFor()
    expect(await page.locator('main img').count()).toBe(0)
  })

  test('opens on the callers of all budgets, worst first, each with its way to the caller, its rule and an override', async () => {
    const rules = [
      llmRule('everybody', ['header:x-user'], { tokens_per_day: 100_000 }),
      budgetRule('team-spend', ['header:x-team'], { budget: 0.5, period: '1d', prices: 'main' }),
      bucketRule('requests', ['header:x-user'], 1, 1e-6),
    ]
    const many = {
      ...bundle(1, policy('llm', { rules: rules.slice(0, 2) }), policy('all', { mode: 'shadow', rules: rules.slice(2) })),
      prices: PRICES,
    }
    const edge = await running({ bundle: many, env: { ...ADMIN_ENV, ...proxyEnv(await fakeLlm()) }, clock: new ManualClock() })
    const body = JSON.stringify({ model: 'big', messages: HELLO, max_tokens: 10 })
    const fields = [
      ['X-Team', 'search'],
      ['X-User', 'ann'],
    ] as const // prettier-ignore
    await ask(edge.port, 'POST', CHAT, fields, body)
    const page = await loggedIn(edge.adminPort)
    await openLlm(page)
    const table = page.getByRole('table', { name: 'Callers nearest to their budget' })
    await expect
      .poll(async () => (await table.getByRole('rowheader').allTextContents()).map((text) => text.replace(/.*?(llm · )/, '$1')))
      .toEqual(['llm · team-spend · money', 'llm · everybody · tokens per day'])
    const worst = table.getByRole('row', { name: 'team-spend' })
    await worst.getByRole('link', { name: 'llm' }).waitFor()
    await page.getByLabel('Rule', { exact: true }).selectOption('llm / everybody')
    await expect.poll(() => table.getByRole('rowheader').count()).toBe(1)
    await page.getByLabel('Rule', { exact: true }).selectOption('all budgets')
    await worst.getByRole('button', { name: 'Override…' }).click()
    await expect.poll(() => page.url()).toContain('#/overrides')
    await page.goBack()
    await worst.getByRole('link', { name: 'search' }).click()
    await expect.poll(() => page.url()).toContain('#/caller')
  })

  test('in decision_service it says that responses are not seen, and shows what is left', async () => {
    const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_GATEWAY_HINTS: 'on' } })
    await edge.decide({
      fields: [
        ['X-Edge-Prompt-Tokens', '100'],
        ['X-Edge-Max-Tokens', '200'],
      ],
    })
    const page = await loggedIn(edge.adminPort)
    await openLlm(page)
    await page.getByText('This is a decision service: it sees no responses').waitFor()
    await expect
      .poll(async () => (await cells(page, 'Budgets that all callers share', 'llm / all')).slice(1, 3))
      .toEqual(['300 tokens', '–'])
    await expect.poll(async () => (await cells(page, 'Tokens and money spent by rule', 'llm / all')).slice(2, 4)).toEqual(['–', '–'])
  })

  test('shows what is used, what requests in flight have reserved, and what of it grows, at every size and in all colours', async () => {
    const reserve = { first: 100, step: 100 }
    const rules = [
      llmRule('day', [], { tokens_per_day: 20_000, reserve, count: { cached_input: 0.1 } }),
      llmRule('each', ['header:x-team'], { tokens_per_day: 10_000 }),
      budgetRule('money', [], { budget: 100, period: '1d', prices: 'main', reserve }),
    ]
    const clock = new ManualClock()
    const llm = await scriptedLlm()
    const growing = { ...bundle(1, policy('llm', { rules })), prices: PRICES }
    const edge = await running({ bundle: growing, env: { ...ADMIN_ENV, EDGE_SHUTDOWN_MS: '0', ...proxyEnv(llm) }, clock })
    const client = new StreamClient(edge.port, CHAT, JSON.stringify({ model: 'big', messages: HELLO, max_tokens: 900, stream: true }), [
      ['X-Team', TEAM],
    ])
    const call = await llm.next()
    call.begin()
    const page = await loggedIn(edge.adminPort)
    await openLlm(page)
    const shared = 'Budgets that all callers share'
    const byRule = 'Tokens and money spent by rule'
    const first = `${HELLO_TOKENS + 100} tokens`
    const whole = `${HELLO_TOKENS + 900} tokens`
    await expect.poll(async () => (await cells(page, shared, 'llm / day')).slice(1, 3)).toEqual(['0 tokens', first])
    await expect
      .poll(async () => (await cells(page, shared, 'llm / money')).slice(1, 3))
      .toEqual(['0.00 currency units', '2.09 currency units'])
    await expect.poll(async () => (await cells(page, /^Callers nearest/, TEAM)).slice(1, 3)).toEqual(['0 tokens', whole])
    await expect
      .poll(async () => (await cells(page, byRule, 'llm / day')).slice(2, 4))
      .toEqual([`${first} (1 request)`, `${first} (1 stream)`])
    await expect.poll(async () => (await cells(page, byRule, 'llm / each')).slice(2, 4)).toEqual([`${whole} (1 request)`, 'none'])
    expect((await cells(page, byRule, 'llm / day'))[0]).toContain('cached input counts 0.1 times')
    clock.advance(2000) // the next sample is due
    await page.getByText('open now, 1 with a growing reservation').waitFor()
    const size = page.viewportSize()!
    for (const [look, { viewport, colorScheme }] of LOOKS) {
      await page.setViewportSize(viewport!)
      await page.emulateMedia({ colorScheme: colorScheme! })
      await expectFine(page, look)
    }
    await page.setViewportSize(size)
    call.end(chatStream(['abcd', 'abcd']))
    await client.untilClosed()
    await expect.poll(async () => (await cells(page, shared, 'llm / day')).slice(1, 3)).toEqual([`${HELLO_TOKENS + 2} tokens`, '0 tokens'])
    await expect.poll(async () => (await cells(page, byRule, 'llm / day')).slice(2, 4)).toEqual(['none', 'none'])
  })

  test('says so where no rule counts tokens or money, and where callers are not counted', async () => {
    const plain = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 1)] })), env: ADMIN_ENV })
    const page = await loggedIn(plain.adminPort)
    await openLlm(page)
    await page.getByText('No rule of the active bundle counts tokens or money.').waitFor()
    const off = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_TOP: 'off' } })
    const other = await loggedIn(off.adminPort)
    await openLlm(other)
    await other.getByText('EDGE_TOP is off, so callers are not counted: restart with EDGE_TOP=on.').waitFor()
  })
})
