import type { Locator, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV } from '../support/admin/admin-client.ts'
import { Operator } from '../support/admin/operator.ts'
import { blockRule, bucketRule, bundle, matching, policy, windowRule } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { inEveryView } from '../support/console/every-view.ts'
import { expectFine, LOOKS } from '../support/console/looks.ts'
import type { Edge } from '../support/service/edge.ts'
import { running } from '../support/service/running.ts'

/** So few tokens a second that none comes back while the test runs. */
const HARDLY_ANY = 0.0001
const BUNDLE = bundle(
  1,
  policy('api', {
    selector: { pathPrefix: '/api', methods: ['POST'], hosts: ['*.example.com'] },
    rules: [bucketRule('per-key', ['header:x-k'], 2, HARDLY_ANY), windowRule('daily', ['header:x-k'], { limit: 100, period: '1d' })],
  }),
  policy('trial', { mode: 'shadow', selector: { pathPrefix: '/trial' }, rules: [bucketRule('per-key', ['header:x-k'], 1, HARDLY_ANY)] }),
  policy('token', { selector: { pathPrefix: '/token' }, rules: [bucketRule('per-token', ['bearer'], 1, HARDLY_ANY)] }),
  policy('both', { selector: { pathPrefix: '/both' }, rules: [bucketRule('per-pair', ['bearer', 'header:x-k'], 1, HARDLY_ANY)] }),
  policy('claims', {
    selector: { pathPrefix: '/claims' },
    rules: [bucketRule('per-user', ['jwt:org.id', 'path:2', 'query:q'], 1, HARDLY_ANY)],
  }),
  policy('blocked', { selector: { pathPrefix: '/blocked' }, rules: [blockRule('mallory', { 'header:x-k': 'mallory' })] }),
  policy('quiet', {
    selector: { pathPrefix: '/quiet' },
    rules: [matching({ 'header:x-plan': 'free' }, bucketRule('free', ['header:x-k'], 9, 1))],
  }),
)
const SECRET = 'secret-token-of-alice'

describeInBrowser('a caller', () => {
  test('is found from every view by the key / and a value, without a mouse', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await edge.decideTimes(4, alice('/api'))
    const page = await loggedIn(edge.adminPort)
    await inEveryView(page, async () => {
      await page.keyboard.press('/')
      await expect.poll(() => page.evaluate('document.activeElement.getAttribute("aria-label")')).toBe('Find a caller')
      await page.keyboard.type('alice')
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { level: 1, name: 'Caller', exact: true }).waitFor()
      await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Caller')
      await row(page, 'Counters', 'api · per-key').getByText('0 of 2 requests left').waitFor()
    })
  })

  test('has its rules with their counters, its rejects with their times, its overrides, and what else could count it', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await edge.decideTimes(5, alice('/api'))
    await edge.decideTimes(2, alice('/trial'))
    await edge.decideTimes(2, { ...alice('/both'), fields: [['Authorization', `Bearer ${SECRET}`], ...alice('').fields] })
    const operator = new Operator(edge.adminPort)
    const { id } = await operator.override({ policy: 'api', rule: 'per-key', values: { 'header:x-k': 'alice' }, multiply: 3 })
    await operator.override({ policy: 'api', rule: 'per-key', values: { 'header:x-k': 'bob' }, multiply: 7 })
    const page = await loggedIn(edge.adminPort)
    await find(page, 'Header:X-K=alice')
    await page.getByText('3 of 4 rules that may count this caller know it.').waitFor()
    const rejects = region(page, 'Rejected in the last hour')
    const cells = row(page, 'Rejected in the last hour', 'api · per-key').getByRole('cell')
    await expect
      .poll(async () => (await cells.allTextContents()).slice(0, 4))
      .toEqual(['3', '3', expect.stringMatching(/^\d\d:\d\d:\d\d UTC/), expect.stringMatching(/ago|now/)])
    // Of a rule with two keys, with both values.
    await expect
      .poll(() => rejects.getByRole('rowheader').allInnerTexts())
      .toContainEqual(expect.stringMatching(/bearer [0-9a-f]{16} \(digest\)\s+header:x-k alice\s+both · per-pair/))
    await expect
      .poll(() =>
        row(page, 'Counters', 'api · per-key')
          .getByText(/^\d of 6 requests left/)
          .count(),
      )
      .toBe(1)
    await row(page, 'Counters', 'api · per-key').getByText(id).waitFor()
    await row(page, 'Counters', 'api · daily').getByText('98 of 100 requests left in this window').waitFor()
    await row(page, 'Counters', 'trial · per-key').getByText('shadow').waitFor()
    await row(page, 'Nothing is counted now', 'quiet · free').getByText('9 of 9 requests left').waitFor()
    await page.getByText('Applies only where its match covers header:x-plan too.').waitFor()
    const overrides = region(page, 'Overrides').locator('tbody tr')
    await expect.poll(() => overrides.count()).toBe(1)
    await expect.poll(() => overrides.innerText()).toMatch(/burst 2 → .*api · per-key\s+header:x-k alice/s)
    await row(page, 'More values', 'both · per-pair').getByText('bearer').waitFor()
  })

  test('by a credential is in no address, no history and nowhere on the page, and its counters can be reset', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await edge.decideTimes(3, { uri: '/token', fields: [['Authorization', `Bearer ${SECRET}`]] })
    const page = await loggedIn(edge.adminPort)
    const urls: string[] = []
    page.on('request', (request) => urls.push(request.url()))
    page.on('framenavigated', (frame) => urls.push(frame.url()))
    await find(page, SECRET)
    const rule = row(page, 'Counters', 'token · per-token')
    await rule.getByText('0 of 1 request left').waitFor()
    expect(await rule.textContent()).toMatch(/bearer [0-9a-f]{16} \(digest\)/)
    await rule.getByRole('button', { name: 'Reset…' }).click()
    await page.getByRole('dialog', { name: 'Make these counters full?' }).waitFor()
    await page.keyboard.type('ticket 4711')
    await page.keyboard.press('Enter')
    await page.getByText('The counters of token · per-token are full.').waitFor()
    await rule.getByText('1 of 1 request left').waitFor()
    expect(await edge.decideTimes(2, { uri: '/token', fields: [['Authorization', `Bearer ${SECRET}`]] })).toEqual([200, 429])
    await page.getByRole('link', { name: 'Events' }).click()
    await page.goBack()
    await rule.waitFor()
    expect(await page.locator('html').evaluate((html) => html.outerHTML)).not.toContain(SECRET)
    expect(await page.getByRole('searchbox', { name: 'Find a caller' }).inputValue()).toBe('')
    expect(urls.filter((url) => url.includes(SECRET))).toEqual([])
    await expect.poll(() => page.title()).toBe('Caller · edge')
    // Nothing of it outlives the page.
    await page.reload()
    await page.getByText('No caller is chosen.').waitFor()
  })

  test('that is known by a digest is found by the credential, and by values that were missing', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await edge.decideTimes(3, { ...alice('/both'), fields: [['Authorization', `Bearer ${SECRET}`], ...alice('').fields] })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('link', { name: 'Callers' }).click()
    await region(page, 'Rejected most').getByRole('link', { name: 'alice' }).click()
    await page.getByText('bearer: this looks like a digest.').waitFor()
    await row(page, 'Rejected in the last hour', 'both · per-pair').waitFor()
    const more = region(page, 'More values')
    await more.getByRole('button', { name: 'Find with these values' }).click()
    await more.getByText('Type at least one of these values.').waitFor()
    await more.getByLabel('bearer').fill(SECRET)
    await page.keyboard.press('Enter')
    await row(page, 'Counters', 'both · per-pair').getByText('0 of 1 request left').waitFor()
    await expect.poll(() => page.getByText('this looks like a digest').count()).toBe(0)
    await row(page, 'Counters', 'both · per-pair').getByRole('button', { name: 'Reset…' }).waitFor()
  })

  test('is filled in where a request is explained, and in an override', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await edge.decideTimes(4, { ...alice('/api', 'müller'), method: 'POST', host: 'www.example.com' })
    const page = await loggedIn(edge.adminPort)
    await find(page, 'header:x-k=müller')
    await row(page, 'Counters', 'api · per-key').getByRole('button', { name: 'Explain' }).click()
    expect(await requestOf(page)).toEqual(['POST', '/api', 'www.example.com', 'x-k: müller'])
    expect(new URL(page.url()).hash).toBe('#/explain')
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByRole('region', { name: 'Verdict' }).getByText('429').waitFor()
    await page.goBack()
    await row(page, 'Counters', 'api · per-key').getByRole('button', { name: 'Override…' }).click()
    await expect.poll(() => page.getByLabel('header:x-k').inputValue()).toBe('müller')
    await expect.poll(() => page.getByLabel('Policy').inputValue()).toBe('api')
    // From the list, where what the policy covers has to be looked up.
    await page.getByRole('link', { name: 'Callers' }).click()
    await region(page, 'Rejected most').getByRole('button', { name: 'Explain müller' }).click()
    expect(await requestOf(page)).toEqual(['POST', '/api', 'www.example.com', 'x-k: müller'])
  })

  test('is explained with claims, segments and parameters, and it is said what is missing', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await find(page, 'jwt:org.id=acme path:2=a b query:q=x&y')
    await page.getByRole('region', { name: 'Nothing is counted now' }).getByRole('button', { name: 'Explain' }).click()
    const [, uri, , headers] = await requestOf(page)
    expect(uri).toBe('/claims/a%20b?q=x%26y')
    const payload = headers!.split('.')[1]!
    expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toEqual({ org: { id: 'acme' } })
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByRole('listitem').filter({ hasText: 'per-user' }).getByText('acme').waitFor()
    await edge.decideTimes(3, { uri: '/token', fields: [['Authorization', `Bearer ${SECRET}`]] })
    await page.getByRole('link', { name: 'Callers' }).click()
    await region(page, 'Rejected most').getByRole('button', { name: 'Explain' }).click()
    await page.getByText("This caller's bearer could not be filled in.").waitFor()
  })

  test('that nobody knows is said to be unknown, with what may be wrong', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await find(page, 'x-k=alice')
    await page.getByText('Nothing is known of this value: no rule counts anything for it now').waitFor()
    await page.getByText('If you meant KEY=VALUE: a key begins with its kind').waitFor()
    await find(page, 'header:x-kk=alice')
    await page.getByText('No rule of the active bundle has the key header:x-kk.').waitFor()
    await find(page, 'ip:address=nowhere')
    await page.getByText('"ip:address" is no IP address').waitFor()
    await find(page, 'header:x-k=mallory')
    await row(page, 'Counters', 'blocked · mallory').getByText('Every request that it covers gets 403.').waitFor()
    const off = await loggedIn((await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_TOP: 'off' } })).adminPort)
    await find(off, 'header:x-k=alice')
    await off.getByText('Rejects are not known, because edge was started with').waitFor()
    await row(off, 'Nothing is counted now', 'api · per-key').getByText('2 of 2 requests left').waitFor()
  })

  test('that is typed wrongly is not asked for, and the field says why', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    const field = page.getByRole('searchbox', { name: 'Find a caller' })
    const problem = () => field.evaluate((input) => (input as unknown as { validationMessage: string }).validationMessage)
    for (const [typed, message] of [
      [' ', 'Type a value of the caller, or KEY=VALUE.'],
      ['header:x-k=', 'The value of header:x-k is missing.'],
      ['header:x-k=a Header:X-K=b', 'header:x-k occurs twice: type one caller.'],
    ] as const) {
      await field.fill(typed)
      await page.keyboard.press('Enter')
      await expect.poll(problem).toBe(message)
    }
    await field.fill('')
    await expect.poll(problem).toBe('')
    expect(new URL(page.url()).hash).toBe('')
    // A slash in a field is a slash, and Escape goes back to where one was.
    await page.getByRole('link', { name: 'Events' }).click()
    await page.getByLabel('Filter').fill('a')
    await page.keyboard.press('/')
    await expect.poll(() => page.getByLabel('Filter').inputValue()).toBe('a/')
    await page.getByRole('button', { name: 'Pause' }).focus()
    await page.keyboard.press('/')
    await page.keyboard.press('Escape')
    await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Pause')
  })

  test('with too many rules is asked for by policy', async () => {
    const policies = Array.from({ length: 600 }, (_, i) => policy(`p${i}`, { rules: [bucketRule('r', ['header:x-k'], 5, 1)] }))
    const edge = await running({ bundle: bundle(1, ...policies), env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await find(page, 'header:x-k=alice')
    await page.getByText('100 more rules may concern this caller and were not looked at: name a policy.').waitFor()
    await page.getByLabel('Policy').fill('p599')
    await page.keyboard.press('Enter')
    await row(page, 'Nothing is counted now', 'p599 · r').getByText('5 of 5 requests left').waitFor()
    await expect.poll(() => new URL(page.url()).hash).toMatch(/^#\/caller\?asked=\d+&policy=p599$/)
  })

  test('is forgotten when the operator logs out', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await find(page, 'header:x-k=alice')
    await row(page, 'Nothing is counted now', 'api · per-key').waitFor()
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.locator('input[type=password]').waitFor()
    expect(await page.locator('body').innerText()).not.toContain('alice')
    const again = page.getByText('No caller is chosen.')
    await page.locator('input[type=password]').fill(ADMIN_ENV.EDGE_ADMIN_TOKEN)
    await page.keyboard.press('Enter')
    await again.waitFor()
  })

  test.each(LOOKS)('is accessible and fits, in its own view and in lists: %s', async (_look, options) => {
    const edge = await rejecting()
    const page = await loggedIn(edge.adminPort, options)
    await region(page, 'Rejected now').getByRole('link', { name: 'alice' }).waitFor()
    await expectFine(page, 'Overview')
    await page.getByRole('link', { name: 'Callers' }).click()
    await region(page, 'Rejected most').getByRole('link', { name: 'alice' }).first().waitFor()
    await expectFine(page, 'Callers')
    await page.getByRole('link', { name: 'Policies', exact: true }).click()
    await page.getByRole('columnheader', { name: 'Rejected, last minute' }).waitFor()
    await expectFine(page, 'Policies')
    // What the field is for can be read, unless it is the magnifying glass of a phone.
    if (page.viewportSize()!.width > 640) expect(await page.evaluate(ROOM_OF_FIELD)).toBeGreaterThan(0)
    await page.keyboard.press('/')
    await page.locator('.find input:focus').waitFor()
    await expectFine(page, 'the field')
    const field = page.getByRole('searchbox', { name: 'Find a caller' })
    await expect.poll(async () => (await field.boundingBox())!.width).toBeGreaterThan(110)
    await page.keyboard.type('header:x-k=alice')
    await page.keyboard.press('Enter')
    await row(page, 'Counters', 'api · per-key').waitFor()
    await row(page, 'More values', 'both · per-pair').waitFor()
    await expectFine(page, 'Caller')
  })

  test('is found with a finger on a phone', async () => {
    const edge = await rejecting()
    const page = await loggedIn(edge.adminPort, { viewport: { width: 375, height: 750 }, hasTouch: true, isMobile: true })
    const field = page.getByRole('searchbox', { name: 'Find a caller' })
    await field.tap()
    await expect.poll(async () => (await field.boundingBox())!.width).toBeGreaterThan(240)
    await field.fill('alice')
    await page.getByRole('button', { name: 'Find', exact: true }).tap()
    await row(page, 'Counters', 'api · per-key').waitFor()
    await expect.poll(async () => (await page.locator('.top').boundingBox())!.height).toBeLessThan(750 / 8)
  })
})

async function rejecting(): Promise<Edge> {
  const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
  await edge.decideTimes(4, alice('/api'))
  await edge.decideTimes(2, alice('/trial'))
  await new Operator(edge.adminPort).override({ policy: 'api', rule: 'per-key', values: { 'header:x-k': 'alice' }, multiply: 3 })
  return edge
}

function alice(uri: string, key = 'alice'): { uri: string; method: string; host: string; fields: [string, string][] } {
  return { uri, method: 'POST', host: 'www.example.com', fields: [['X-K', Buffer.from(key).toString('latin1')]] }
}

/** Types a caller into the field at the top. */
async function find(page: Page, text: string): Promise<void> {
  await page.getByRole('searchbox', { name: 'Find a caller' }).fill(text)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Caller', exact: true }).waitFor()
}

function region(page: Page, name: string): Locator {
  return page.getByRole('region', { name, exact: true })
}

function row(page: Page, name: string, rule: string): Locator {
  return region(page, name).getByRole('row').filter({ hasText: rule })
}

/** What the form of Explain has: method, URI, host and header fields. */
async function requestOf(page: Page): Promise<string[]> {
  await page.getByRole('heading', { level: 1, name: 'Explain' }).waitFor()
  return Promise.all(['Method', 'URI', 'Host', 'Header fields'].map((label) => page.getByLabel(label, { exact: true }).inputValue()))
}

/** How much wider the field for callers is than the first words of its placeholder. */
const ROOM_OF_FIELD = `(() => {
  const field = document.querySelector('.find input')
  const style = getComputedStyle(field)
  const drawing = document.createElement('canvas').getContext('2d')
  drawing.font = style.font
  return field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - drawing.measureText('Find a caller').width
})()`
