import type { Page } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { Operator } from '../support/admin/operator.ts'
import { budgetRule, bundle, llmRule, policy, rateRule } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { proxying } from '../support/proxy/proxy.ts'
import type { Edge } from '../support/service/edge.ts'
import { running } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const KEY = 'header:x-k'
const BUNDLE = bundle(
  1,
  policy('api', { selector: { pathPrefix: '/api' }, rules: [rateRule('per-key', [KEY], { rate: '60/minute' })] }),
  // So slow that nothing comes back while a test runs.
  policy('slow', { selector: { pathPrefix: '/slow' }, rules: [rateRule('per-key', [KEY], { rate: '60/day' })] }),
  policy('llm', {
    selector: { pathPrefix: '/llm' },
    rules: [
      llmRule('tokens', [KEY], { tokens_per_minute: 1000, tokens_per_day: 9000 }),
      budgetRule('money', [], { budget: 20, period: '1mo', cost: { header: 'x-cost', default: 1 } }),
    ],
  }),
)
const ALICE = { policy: 'api', rule: 'per-key', values: { [KEY]: 'alice' } }
const BERLIN = { timezoneId: 'Europe/Berlin' }
const MINUTE_MS = 60_000

describeInBrowser('changes of overrides', () => {
  test('are shown before they are made: what becomes of the limits, for whom, and until when', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await openOverrides(edge)
    await begin(page, 'api', 'per-key')
    await page.getByLabel(KEY).fill('alice')
    await page.getByLabel('Reason').fill('ticket 4711')
    await page.getByRole('button', { name: 'Preview…' }).click()
    const dialog = page.getByRole('dialog', { name: 'Set this override?' })
    await dialog.getByText('60 → 120 requests per minute').waitFor()
    await dialog.getByText('alice').waitFor()
    await dialog.getByText('This instance decided 0 requests of all callers by the policy in the last minute.').waitFor()
    await expect.poll(() => dialog.textContent()).toMatch(/Ends(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC\+1in (1 h|59 min)/)
    // A preview changes nothing, and what was typed is still there after it.
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    expect(await new Operator(edge.adminPort).overrides()).toEqual([])
    expect(await page.getByLabel(KEY).inputValue()).toBe('alice')
    await page.getByRole('button', { name: 'Preview…' }).click()
    await page.getByRole('button', { name: 'Set override' }).click()
    const row = page.getByRole('row', { name: '60 → 120 requests per minute' })
    await expect.poll(() => row.textContent()).toMatch(/UTC\+1in (1 h|59 min).*/)
    await row.getByText('2 × the limit', { exact: true }).waitFor()
  })

  test('for all callers are confirmed with how many there are', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    for (const key of ['alice', 'bob', 'carol']) await edge.decideTimes(2, { uri: '/slow', fields: [['X-K', key]] })
    const page = await openOverrides(edge)
    await begin(page, 'slow', 'per-key')
    expect(await page.getByLabel('One caller').isChecked()).toBe(true)
    await page.getByLabel('All callers of the rule').check()
    await page.getByLabel('Block').check()
    await page.getByLabel('Reason').fill('an attack')
    await page.getByRole('button', { name: 'Preview…' }).click()
    const dialog = page.getByRole('dialog', { name: 'Set this override for all callers?' })
    await dialog.getByText('At least 3 callers of the rule were active here in the last ten minutes.').waitFor()
    await dialog.getByText('instead of 60 requests per day').waitFor()
    // A key pressed once too often cancels.
    await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Cancel')
    await dialog.getByRole('button', { name: 'Set it for all callers' }).click()
    await page.getByRole('row', { name: 'Blocked: 403' }).waitFor()
    await expect.poll(() => edge.decideTimes(1, { uri: '/slow', fields: [['X-K', 'dave']] })).toEqual([403])
  })

  test('have units: of each limit of a rule, of tokens and of money', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const operator = new Operator(edge.adminPort)
    await operator.override({ policy: 'llm', rule: 'tokens', all: true, multiply: 2 })
    const page = await openOverrides(edge)
    await page.getByText('1,000 → 2,000 tokens per minute').waitFor()
    await page.getByText('9,000 → 18,000 tokens per day').waitFor()
    await begin(page, 'llm', 'money')
    await page.getByLabel('Set limits').check()
    await page.getByLabel('Budget, in currency units per month').fill('50')
    await page.getByLabel('Reason').fill('a good month')
    await page.getByRole('button', { name: 'Preview…' }).click()
    await page.getByRole('dialog').getByText('20.00 → 50.00 currency units per month').waitFor()
  })

  test('extend an override by a length that is one click, and name the new end', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const operator = new Operator(edge.adminPort)
    const made = await operator.override({ ...ALICE, multiply: 2 })
    const page = await openOverrides(edge)
    await page.getByRole('button', { name: 'Extend 2 × the limit for alice' }).click()
    const dialog = page.getByRole('dialog', { name: 'Extend this override?' })
    await dialog.getByLabel('4 h').check()
    const end = Date.parse(String(made['until'])) + 240 * MINUTE_MS
    const moment = await page.evaluate<string>(`new Date(${end}).toLocaleTimeString('en-GB')`)
    await dialog.getByText(`New end: `).getByText(moment).waitFor()
    await dialog.getByLabel('Reason').fill('not over yet')
    await dialog.getByRole('button', { name: new RegExp(`^Extend to .*${moment} UTC\\+1$`) }).click()
    await page.getByText(new RegExp(`^The override ends at .*${moment} UTC\\+1\\.$`)).waitFor()
    expect(await operator.overrides()).toMatchObject([
      { id: made.id, multiply: 2, until: new Date(end).toISOString(), edited: { actor: 'ada', reason: 'not over yet' } },
    ])
    await page.getByRole('row', { name: '60 → 120' }).getByText('Edited by ada').waitFor()
  })

  test('edit what an override does, when it ends, or both, after a preview', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const operator = new Operator(edge.adminPort)
    const made = await operator.override({ ...ALICE, multiply: 2 })
    const page = await openOverrides(edge)
    await page.getByRole('button', { name: 'Edit 2 × the limit' }).click()
    const dialog = page.getByRole('dialog', { name: 'Edit this override' })
    expect(await dialog.getByLabel('Multiply by').inputValue()).toBe('2')
    await dialog.getByLabel('Reason').fill('nothing')
    await dialog.getByRole('button', { name: 'Preview…' }).click()
    await dialog.getByText('nothing to edit').waitFor()
    await dialog.getByLabel('Multiply by').fill('many')
    await dialog.getByRole('button', { name: 'Preview…' }).click()
    await dialog.getByText('expected a number above 0').waitFor()
    await dialog.getByLabel('Multiply by').fill('4')
    await dialog.getByLabel('Reason').fill('more')
    await dialog.getByRole('button', { name: 'Preview…' }).click()
    const confirmation = page.getByRole('dialog', { name: 'Change the override?' })
    await confirmation.getByText('120 → 240 requests per minute').waitFor()
    expect(await operator.overrides()).toMatchObject([{ multiply: 2, edited: null }])
    await confirmation.getByRole('button', { name: 'Change it' }).click()
    await page.getByText('The override is changed, and in force.').waitFor()
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0)
    expect(await operator.overrides()).toMatchObject([{ id: made.id, multiply: 4, until: made['until'], edited: { reason: 'more' } }])

    await page.getByRole('button', { name: 'Edit 4 × the limit' }).click()
    await dialog.getByLabel('Set limits').check()
    await dialog.getByLabel('Burst, in requests').fill('7')
    await dialog.getByLabel('15 min').check()
    await dialog.getByLabel('Reason').fill('less')
    await dialog.getByRole('button', { name: 'Preview…' }).click()
    await confirmation.getByRole('button', { name: 'Change it' }).click()
    await page.getByRole('row', { name: 'burst 7' }).waitFor()
    const [edited] = await operator.overrides()
    expect(edited).toMatchObject({ id: made.id, set: { burst: 7 } })
    expect(Date.parse(String(edited!['until']))).toBeLessThan(Date.now() + 16 * MINUTE_MS)
  })

  test('edit only the end where the bundle has lost the rule, and of shadow_all', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const operator = new Operator(edge.adminPort)
    await operator.override({ ...ALICE, multiply: 2 })
    await operator.override({ shadow_all: true })
    await edge.publish(bundle(2, policy('other', { rules: [rateRule('r', [KEY], { rate: '1/second' })] })))
    const page = await openOverrides(edge)
    const dialog = page.getByRole('dialog', { name: 'Edit this override' })
    for (const name of ['2 × the limit', 'Nothing is enforced']) {
      await page.getByRole('button', { name: `Edit ${name}` }).click()
      if (name !== 'Nothing is enforced') await dialog.getByText('only the end can be edited').waitFor()
      await dialog.getByLabel('15 min').check()
      expect(await dialog.getByLabel('Multiply by').count()).toBe(0)
      await dialog.getByLabel('Reason').fill('sooner')
      await dialog.getByRole('button', { name: 'Preview…' }).click()
      await page.getByRole('button', { name: 'Change it' }).click()
      await expect.poll(() => page.getByRole('dialog').count()).toBe(0)
    }
    expect(await operator.overrides()).toMatchObject([{ edited: { reason: 'sooner' } }, { edited: { reason: 'sooner' } }])
  })

  test('are remembered: who ended what, and why', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const operator = new Operator(edge.adminPort)
    const page = await openOverrides(edge)
    await page.getByText('No override has ended since this instance started.').waitFor()
    const { id } = await operator.override({ ...ALICE, multiply: 2 })
    await page.getByRole('button', { name: 'End 2 × the limit for alice', exact: false }).last().click()
    await page.getByRole('dialog').getByText('The limit of the bundle counts again: 60 requests per minute.').waitFor()
    await page.getByRole('dialog').getByLabel('Reason').fill('all is well')
    await page.getByRole('button', { name: 'End it' }).click()
    const ended = page.getByRole('table', { name: 'Overrides that have ended' }).getByRole('row', { name: '2 × the limit' })
    await expect.poll(() => ended.textContent()).toMatch(/a test.*UTC\+1.*Ended (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC\+1ada: all is well/)
    await ended.getByText(id, { exact: true }).waitFor()
  })

  test('name the id that the command wants, and copy it', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const { id } = await new Operator(edge.adminPort).override({ ...ALICE, multiply: 2 })
    const page = await openOverrides(edge)
    const table = page.getByRole('table', { name: 'Overrides', exact: true })
    await expect
      .poll(() => table.getByRole('columnheader').allTextContents())
      .toEqual(['What it does', 'Who it is for', 'Why, and by whom', 'Ends', 'Id', 'Actions'])
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('button', { name: `Copy id ${id}` }).click()
    await page.getByText('Copied.').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(id)
    // Over plain HTTP from another host there is no clipboard.
    await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`)
    await page.getByRole('button', { name: `Copy id ${id}` }).click()
    await page.getByText('Selected: press Ctrl+C').waitFor()
    expect(await page.evaluate('String(getSelection())')).toBe(id)
  })

  test('of a proxy cut open streams where that is chosen, and otherwise say that they go on', async () => {
    const backend = await HttpBackend.start((_req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n')
    })
    const edge = await proxying(backend, { bundle: BUNDLE, env: ADMIN_ENV })
    const stream = new StreamClient(edge.port, '/api', '', [['X-K', 'alice']])
    onTestFinished(() => stream.abort())
    await until(async () => (await streamsNow(edge)) === 1)
    const page = await openOverrides(edge)
    await begin(page, 'api', 'per-key')
    await page.getByLabel(KEY).fill('alice')
    await page.getByLabel('Block').check()
    await page.getByText('go on until they end by themselves, and use tokens').waitFor()
    expect(await page.getByLabel('Cut open streams').isChecked()).toBe(false)
    await page.getByLabel('Reason').fill('an attack')
    await page.getByRole('button', { name: 'Preview…' }).click()
    const goOn = '1 stream of all callers is open at this instance. Those of the blocked callers go on until they end.'
    await page.getByRole('dialog').getByText(goOn).waitFor()
    await page.getByRole('button', { name: 'Set override' }).click()
    await page.getByRole('status').getByText(goOn).waitFor()
    expect(stream.outcome).toBe('open')

    await page.getByRole('button', { name: 'Edit Blocked: 403 for alice' }).click()
    await page.getByLabel('Cut open streams').check()
    await page.getByRole('dialog').getByLabel('Reason').fill('it still streams')
    await page.getByRole('dialog').getByRole('button', { name: 'Preview…' }).click()
    await page.getByRole('dialog').getByText('Those of the blocked callers are cut.').waitFor()
    await page.getByRole('button', { name: 'Change it' }).click()
    await page.getByRole('row', { name: 'Blocked: 403, open streams are cut' }).waitFor()
    await page.getByRole('status').getByText('1 stream of the blocked callers was cut at this instance.').waitFor()
    await until(() => stream.outcome !== 'open')
  })

  test('of a decision service have no choice about streams', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await openOverrides(edge)
    await begin(page, 'api', 'per-key')
    await page.getByLabel('Block').check()
    await page.getByText('This instance is a decision service').waitFor()
    expect(await page.getByLabel('Cut open streams').count()).toBe(0)
  })
})

async function openOverrides(edge: Edge): Promise<Page> {
  const page = await loggedIn(edge.adminPort, BERLIN, 'ada')
  await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Overrides' }).click()
  // A view that opens takes the focus.
  await page.locator('h1:focus').waitFor()
  return page
}

async function begin(page: Page, policyId: string, rule: string): Promise<void> {
  await page.getByRole('button', { name: 'New override' }).click()
  await page.getByLabel('Policy').fill(policyId)
  await page.getByLabel('Rule', { exact: true }).selectOption(rule)
}

async function streamsNow(edge: Edge): Promise<number> {
  const body = { ...ALICE, block: true, until: '1h', reason: 'a look' }
  return (await askAdmin(edge.adminPort, 'POST', 'overrides/preview', { body })).json.streams.open
}
