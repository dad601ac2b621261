import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { Operator } from '../support/admin/operator.ts'
import { blockRule, bucketRule, bundle, matching, policy, rateRule } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import type { Edge } from '../support/service/edge.ts'
import { running, scratchDirectory } from '../support/service/running.ts'

/** So few tokens a second that none comes back while the test runs. */
const HARDLY_ANY = 0.0001
const BUNDLE = bundle(
  1,
  policy('api', { selector: { pathPrefix: '/api' }, rules: [bucketRule('per-key', ['header:x-k'], 2, HARDLY_ANY)] }),
  policy('two', {
    selector: { pathPrefix: '/two' },
    rules: [bucketRule('per-token', ['bearer'], 1, HARDLY_ANY), rateRule('everybody', [], { rate: '5/day', burst: 5 })],
  }),
  policy('closed', { selector: { pathPrefix: '/closed' }, rules: [matching({ 'header:x-k': ['mallory'] }, blockRule('mallory'))] }),
)
const MARKUP = '<img src=x onerror=alert(1)><b>bold</b>'

describeInBrowser('the overrides', () => {
  test('lift a caller who gets 429 for as long as they last', async () => {
    const { edge, page } = await opened()
    expect(await edge.decideTimes(3, caller('alice'))).toEqual([200, 200, 429])
    await page.getByText('No overrides. Every rule is as the bundle has it.').waitFor()
    await begin(page, 'api', 'per-key')
    await page.getByLabel('header:x-k').fill('alice')
    await page.getByLabel('Multiply by').fill('3')
    await make(page, 'ticket 4711')
    const row = page.getByRole('row', { name: '3 × the limit' })
    await expect.poll(() => row.textContent()).toMatch(/api · per-keyheader:x-k alice.*ticket 4711.*5\d min/)
    expect(await edge.decideTimes(5, caller('alice'))).toEqual([200, 200, 200, 200, 429])
    expect(await edge.decideTimes(3, caller('bob'))).toEqual([200, 200, 429])
    await end(page, '3 × the limit', 'over')
    await page.getByText('The override has ended.').waitFor()
    await page.getByText('No overrides.').waitFor()
    expect(await edge.decideTimes(1, caller('alice'))).toEqual([429])
    expect(edge.logged('override_set')).toMatchObject([{ actor: 'unknown', reason: 'ticket 4711' }])
    expect(edge.logged('override_ended')).toMatchObject([{ reason: 'over' }])
  })

  test.each([
    ['Set limits', 'burst 4', [200, 200, 200, 200, 429]],
    ['No limit', 'No limit', [200, 200, 200, 200, 200]],
    ['Block', 'Blocked: 403', [403, 403, 403, 403, 403]],
  ] as const)('change a rule for all callers: %s', async (kind, text, statuses) => {
    const { edge, page } = await opened()
    await begin(page, 'api', 'per-key')
    await page.getByLabel('All callers of the rule').check()
    await page.getByLabel(kind).check()
    if (kind === 'Set limits') await page.getByLabel('burst').fill('4')
    await make(page, 'all of them')
    await page.getByRole('row', { name: text }).getByText('all callers', { exact: true }).waitFor()
    expect(await edge.decideTimes(5, caller('anybody'))).toEqual(statuses)
  })

  test('of a rule without keys are for everybody, and of one without limits are no other limits', async () => {
    const { edge, page } = await opened()
    await begin(page, 'two', 'everybody')
    await page.getByText('This rule has one counter for all callers').waitFor()
    await page.getByLabel('Set limits').check()
    await page.getByLabel('rate').fill('7/day')
    await make(page, 'more')
    await page.getByRole('row', { name: '7 requests per day' }).waitFor()
    expect(await operator(edge).overrides()).toMatchObject([{ rule: 'everybody', values: null, set: { rate: '7/day' } }])
    await begin(page, 'closed', 'mallory')
    await page.getByRole('radio', { name: 'No limit' }).waitFor()
    expect(await page.getByRole('radio', { name: 'Multiply the limit' }).count()).toBe(0)
    await make(page, 'forgiven')
    await page.getByRole('row', { name: 'No limit' }).waitFor()
    expect(await edge.decideTimes(1, { uri: '/closed', fields: [['X-K', 'mallory']] })).toEqual([200])
  })

  test('take credentials, and show digests of them', async () => {
    const { edge, page } = await opened()
    const request = { uri: '/two', fields: [['Authorization', 'Bearer secret-token-of-alice']] } as const
    await begin(page, 'two', 'per-token')
    await page.getByLabel('bearer').fill('secret-token-of-alice')
    await page.getByLabel('No limit').check()
    await make(page, 'a customer')
    await expect.poll(() => page.getByRole('row', { name: 'No limit' }).textContent()).toMatch(/bearer [0-9a-f]{16} \(digest\)/)
    expect(await page.content()).not.toContain('secret-token')
    expect(await edge.decideTimes(3, request)).toEqual([200, 200, 200])
  })

  test('end when the operator says: after a while, at a time, or with the day', async () => {
    const { edge, page } = await opened()
    const untilOf = async (choose: () => Promise<void>): Promise<number> => {
      await begin(page, 'api', 'per-key')
      await page.getByLabel('All callers of the rule').check()
      await choose()
      await make(page, 'a while')
      const [made] = await operator(edge).overrides()
      await operator(edge).end(made!.id)
      return Date.parse(String(made!['until']))
    }
    const expectMinutes = async (minutes: number, choose: () => Promise<void>): Promise<void> => {
      const beforeMs = Date.now()
      const durationMs = (await untilOf(choose)) - minutes * 60_000
      // The API tells times in whole seconds.
      expect(durationMs).toBeGreaterThan(beforeMs - 1000)
      expect(durationMs).toBeLessThan(Date.now() + 1000)
    }
    await expectMinutes(15, () => page.getByLabel('15 min').check())
    await expectMinutes(120, () => page.getByLabel('2 h').check())
    const forDays = async (): Promise<void> => {
      await page.getByLabel('For…').check()
      await page.getByLabel('Duration').fill('3d')
    }
    await expectMinutes(3 * 24 * 60, forDays)
    const midnight = () => page.evaluate<number>('new Date().setHours(24, 0, 0, 0)')
    const before = await midnight()
    const endOfDay = await untilOf(() => page.getByLabel('End of day').check())
    expect([before, await midnight()]).toContain(endOfDay)
    const atTime = async (): Promise<void> => {
      await page.getByLabel('Until…').check()
      await page.getByLabel('Time, in your time zone').fill('2031-02-03T04:05:06')
    }
    expect(await untilOf(atTime)).toBe(await page.evaluate<number>('Date.parse("2031-02-03T04:05:06")'))
  })

  test('count down', async () => {
    const { edge, page } = await opened()
    await operator(edge).override({ policy: 'api', rule: 'per-key', all: true, unlimited: true, until: '30m' })
    const clock = page.getByRole('row', { name: 'No limit' }).getByRole('time').last()
    await expect.poll(() => clock.textContent()).toMatch(/^2\d min( \d+ s)?$/)
    const before = await clock.textContent()
    await expect.poll(() => clock.textContent()).not.toBe(before)
    expect(await clock.getAttribute('title')).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/)
  })

  test('replace one another, also where the first has ended meanwhile', async () => {
    const { edge, page } = await opened()
    const values = { 'header:x-k': 'alice' }
    const first = await operator(edge).override({ policy: 'api', rule: 'per-key', values, block: true, reason: 'an \u202e attack' })
    const again = async (times: string): Promise<void> => {
      await begin(page, 'api', 'per-key')
      await page.getByLabel('header:x-k').fill('alice')
      await page.getByLabel('Multiply by').fill(times)
      await page.getByLabel('Reason').fill('it was me')
      await page.getByRole('button', { name: 'Preview…' }).click()
      await page.getByRole('dialog', { name: 'Replace the existing override' }).waitFor()
    }
    await again('3')
    await page.getByRole('dialog').getByText('an \\u{202e} attack').waitFor()
    expect(await operator(edge).overrides()).toMatchObject([{ id: first.id }])
    await page.getByRole('button', { name: 'Replace it' }).click()
    await page.getByText('The override is in force.').waitFor()
    expect(await edge.decideTimes(7, caller('alice'))).toEqual([200, 200, 200, 200, 200, 200, 429])
    await again('5')
    const [second] = await operator(edge).overrides()
    await operator(edge).end(second!.id)
    await page.getByRole('button', { name: 'Replace it' }).click()
    await page.getByRole('row', { name: '5 × the limit' }).waitFor()
    expect(await operator(edge).overrides()).toMatchObject([{ multiply: 5 }])
  })

  test('can be ended without scrolling sideways, however long a word in a reason is', async () => {
    const { edge, page } = await opened()
    await operator(edge).override({ policy: 'api', rule: 'per-key', all: true, unlimited: true, reason: 'x'.repeat(400) })
    const { x, width } = (await page.getByRole('button', { name: /^End No limit/ }).boundingBox())!
    expect(x + width).toBeLessThan(1280)
  })

  test('of another operator appear, and one that is gone is ended calmly', async () => {
    const { edge, page } = await opened()
    const { id } = await operator(edge).override({ policy: 'api', rule: 'per-key', all: true, unlimited: true, reason: 'by another' })
    await page.getByRole('row', { name: 'No limit' }).getByText('by another').waitFor()
    await page.getByRole('button', { name: /^End No limit/ }).click()
    await page.getByRole('dialog').getByLabel('Reason').fill('both of us')
    await operator(edge).end(id)
    await page.getByRole('button', { name: 'End it' }).click()
    await page.getByText('The override had ended already.').waitFor()
    await page.getByText('No overrides.').waitFor()
  })

  test('of shadow_all stop all enforcement, and end', async () => {
    const { edge, page } = await opened()
    expect(await edge.decideTimes(3, caller('alice'))).toEqual([200, 200, 429])
    await page.getByRole('button', { name: 'Stop enforcing…' }).click()
    const dialog = page.getByRole('dialog', { name: 'Stop enforcing all policies?' })
    await dialog.getByLabel('15 min').check()
    await dialog.getByLabel('Reason').fill('incident 77')
    await dialog.getByRole('button', { name: 'Stop enforcing' }).click()
    await page.getByText('unknown: incident 77').waitFor()
    await page.getByRole('banner').getByText('Nothing is enforced').waitFor()
    await expect.poll(() => edge.decideTimes(2, caller('alice'))).toEqual([200, 200])
    await edge.publish('not a bundle')
    await page.getByRole('banner').getByText('1 problem').waitFor()
    await page.getByRole('banner').getByText('Nothing is enforced').waitFor()
    await page.getByRole('button', { name: 'Enforce again…' }).click()
    await page.getByRole('dialog').getByLabel('Reason').fill('solved')
    await page.getByRole('dialog').getByRole('button', { name: 'Enforce again' }).click()
    await page.getByRole('button', { name: 'Stop enforcing…' }).waitFor()
    await expect.poll(() => edge.decideTimes(1, caller('alice'))).toEqual([429])
  })

  test('say at its field what is wrong, and change nothing', async () => {
    const { edge, page } = await opened()
    await page.getByRole('button', { name: 'New override' }).click()
    const submit = page.getByRole('button', { name: 'Preview…' })
    const expectError = async (label: string, message: RegExp): Promise<void> => {
      await submit.click()
      await expect.poll(() => describedText(page, label)).toMatch(message)
    }
    await page.getByLabel('Reason').fill(' ')
    await page.getByLabel('Policy').fill('nothing like it')
    await expectError('Policy', /no such policy/)
    await page.getByLabel('Policy').fill('two')
    await expectError('Rule', /Choose a rule/)
    // Before the page has looked the name up: the fields of its rule have not been seen yet.
    await page
      .getByLabel('Policy')
      .evaluate((input: { value: string; form: { requestSubmit(): void }; dispatchEvent(event: unknown): void }) => {
        input.value = 'api'
        input.dispatchEvent(new Event('input', { bubbles: true }))
        input.form.requestSubmit()
      })
    await expect.poll(() => describedText(page, 'Rule')).toMatch(/Say for whom/)
    await expectError('Reason', /Say why/)
    await page.getByLabel('Reason').fill('a reason')
    await expectError('header:x-k', /header:x-k is empty/)
    await page.getByLabel('header:x-k').fill('alice')
    await page.getByLabel('Multiply by').fill('many')
    await expectError('Multiply by', /expected a number above 0/)
    await page.getByLabel('Set limits').check()
    await page.getByLabel('burst').fill('-1')
    await expectError('Burst, in requests', /burst/)
    await page.getByLabel('burst').fill('3')
    await page.getByLabel('For…').check()
    await page.getByLabel('Duration').fill('soon')
    await submit.click()
    await page.getByRole('group', { name: 'Ends' }).getByText('expected a time in UTC').waitFor()
    expect(await operator(edge).overrides()).toEqual([])
    await page.getByLabel('Duration').fill('5m')
    await submit.click()
    await page.getByRole('button', { name: 'Set override' }).click()
    await page.getByRole('row', { name: 'burst 3' }).waitFor()
  })

  test('say whether they are in force and kept', async () => {
    const { edge, page } = await opened()
    await operator(edge).override({ policy: 'api', rule: 'per-key', all: true, unlimited: true })
    const row = page.getByRole('row', { name: 'No limit' })
    await row.getByText('Not saved').waitFor()
    await page.getByText('A restart ends those that are not saved').waitFor()
    expect(await row.getByText('Not in force').count()).toBe(0)
    await edge.publish(bundle(2, policy('other', { rules: [bucketRule('r', [], 1)] })))
    await row.getByText('The active bundle has no such rule').waitFor()
  })

  test('that are saved say nothing of a restart', async () => {
    const { edge, page } = await opened({ EDGE_STATE_FILE: join(await scratchDirectory(), 'state') })
    await operator(edge).override({ policy: 'api', rule: 'per-key', all: true, unlimited: true })
    const row = page.getByRole('row', { name: 'No limit' })
    await row.waitFor()
    await expect.poll(() => row.getByText('Not saved').count()).toBe(0)
  })

  test('show HTML in values, names and reasons as it is written', async () => {
    const { edge, page } = await opened()
    const body = { policy: 'api', rule: 'per-key', values: { 'header:x-k': MARKUP }, unlimited: true, until: '1h', reason: MARKUP }
    await askAdmin(edge.adminPort, 'POST', 'overrides', { body, actor: MARKUP })
    await expect
      .poll(() => page.getByRole('row', { name: 'No limit' }).textContent())
      .toMatch(/(.*<img src=x onerror=alert\(1\)><b>bold<\/b>){3}/s)
    await page.getByRole('button', { name: /^End No limit/ }).click()
    await page.getByRole('dialog').getByText(MARKUP).waitFor()
    expect(await page.locator('main img, main b').count()).toBe(0)
  })

  test('are made and ended by keyboard alone', async () => {
    const { edge, page } = await opened()
    await page.getByRole('button', { name: 'New override' }).focus()
    await page.keyboard.press('Enter')
    await page.getByLabel('Policy').focus()
    await page.keyboard.type('api')
    await expect.poll(() => page.getByLabel('Rule', { exact: true }).inputValue()).toBe('per-key')
    for (const text of ['', '', 'alice']) {
      await page.keyboard.press('Tab')
      await page.keyboard.type(text)
    }
    await page.getByLabel('Reason').focus()
    await page.keyboard.type('by hand')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'Set this override?' }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('row', { name: '2 × the limit' }).getByText('alice', { exact: true }).waitFor()
    // The heading gets the focus once the dialog is gone, and would take it from a button that had it earlier.
    await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('H1')
    await page.getByRole('button', { name: /^End 2 × the limit for alice/ }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'End this override?' }).waitFor()
    await page.keyboard.type('by hand')
    await page.keyboard.press('Enter')
    await page.getByText('No overrides.').waitFor()
    expect(await operator(edge).overrides()).toEqual([])
  })

  test('are made for one of 10,000 policies', async () => {
    const policies = Array.from({ length: 10_000 }, (_, i) =>
      policy(`tenant-${i}`, { selector: { pathPrefix: `/tenant-${i}` }, rules: [bucketRule(`rule-${i}`, ['header:x-k'], 1, HARDLY_ANY)] }),
    )
    const edge = await running({ bundle: bundle(1, ...policies), env: ADMIN_ENV })
    const page = await openOverrides(edge)
    await page.getByRole('button', { name: 'New override' }).click()
    await expect.poll(() => page.getByLabel('Policy').getAttribute('placeholder')).toBe('10,000 in the bundle')
    const suggested = page.locator('datalist option')
    await expect.poll(() => suggested.count()).toBe(50)
    await page.getByLabel('Policy').fill('9999')
    await expect.poll(() => suggested.count()).toBe(1)
    expect(await suggested.getAttribute('value')).toBe('tenant-9999')
    await page.getByLabel('Policy').fill('tenant-9999')
    await expect.poll(() => page.getByLabel('Rule', { exact: true }).inputValue()).toBe('rule-9999')
    await page.getByLabel('header:x-k').fill('alice')
    await make(page, 'one of many')
    expect(await edge.decideTimes(3, { uri: '/tenant-9999', fields: [['X-K', 'alice']] })).toEqual([200, 200, 429])
  })

  test('fit a phone', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await operator(edge).override({
      policy: 'api',
      rule: 'per-key',
      values: { 'header:x-k': 'a-value-without-any-space-in-it'.repeat(4) },
      block: true,
    })
    const page = await openOverrides(edge, { viewport: { width: 360, height: 740 } })
    await begin(page, 'api', 'per-key')
    await page.getByRole('row', { name: 'Blocked' }).waitFor()
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360)
  })
})

async function opened(env: Readonly<Record<string, string>> = {}): Promise<{ edge: Edge; page: Page }> {
  const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, ...env } })
  return { edge, page: await openOverrides(edge) }
}

async function openOverrides(edge: Edge, options: Parameters<typeof loggedIn>[1] = {}): Promise<Page> {
  const page = await loggedIn(edge.adminPort, options)
  await page.getByRole('link', { name: 'Overrides' }).click()
  // A view that opens takes the focus.
  await page.locator('h1:focus').waitFor()
  return page
}

function operator(edge: Edge): Operator {
  return new Operator(edge.adminPort)
}

function caller(key: string): { uri: string; fields: [string, string][] } {
  return { uri: '/api', fields: [['X-K', key]] }
}

async function begin(page: Page, policyId: string, rule: string): Promise<void> {
  await page.getByRole('button', { name: 'New override' }).click()
  await page.getByLabel('Policy').fill(policyId)
  await page.getByLabel('Rule', { exact: true }).selectOption(rule)
}

async function make(page: Page, reason: string): Promise<void> {
  await page.getByLabel('Reason').fill(reason)
  await page.getByRole('button', { name: 'Preview…' }).click()
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /^(Set override|Set it for all callers)$/ })
    .click()
  await page.getByText('The override is in force.').waitFor()
}

async function end(page: Page, change: string, reason: string): Promise<void> {
  await page.getByRole('button', { name: new RegExp(`^End ${change}`) }).click()
  await page.getByRole('dialog').getByLabel('Reason').fill(reason)
  await page.getByRole('button', { name: 'End it' }).click()
}

/** What a screen reader says of a control beside its label. */
async function describedText(page: Page, label: string): Promise<string> {
  const ids = (await page.getByLabel(label, { exact: true }).getAttribute('aria-describedby')) ?? ''
  const texts = ids
    .split(' ')
    .filter(Boolean)
    .map((id) => page.locator(`[id="${id}"]`).textContent())
  return (await Promise.all(texts)).join(' ')
}
