import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, budgetRule, bundle, llmRule, matching, policy, windowRule } from '../support/bundles/bundles.ts'
import { CALLERS, GoodCallers } from '../support/callers/good-callers.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { CHAT, HELLO, HELLO_TOKENS, proxyEnv } from '../support/llm/llm-proxy.ts'
import { PRICES } from '../support/llm/money-proxy.ts'
import { scriptedLlm } from '../support/llm/scripted-llm.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { RawClient } from '../support/proxy/proxy.ts'
import { named, routing, saying } from '../support/proxy/routed.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const BUNDLE = bundle(
  1,
  policy('api', {
    selector: { pathPrefix: '/api' },
    rules: [
      bucketRule('per-key', ['header:x-k'], 4, 0.1),
      matching({ 'header:x-plan': 'gold' }, bucketRule('gold', ['header:x-k'], 9)),
      bucketRule('per-token', ['bearer'], 5),
    ],
  }),
  policy('trial', { mode: 'shadow', rules: [bucketRule('all', [], 100)] }),
  policy('writes', { selector: { methods: ['POST'] }, rules: [] }),
  policy('other', { selector: { pathPrefix: '/other' }, rules: [] }),
)

describeInBrowser('the view that explains a request', () => {
  test('shows the backends of its route, which is next, and which cool, why and until when', async () => {
    let held = false
    const a = await HttpBackend.start((req, res) => {
      if (req.url === '/hold/probe') held = true
      else res.writeHead(503, { 'Retry-After': '300' }).end()
    })
    const [b, d] = [await named('b'), await HttpBackend.start(saying('', 503, { 'Retry-After': '500' }))]
    const retry = { on: ['5xx'], attempts: 1 }
    const routes = [
      { selector: { pathPrefix: '/both' }, backends: [{ name: 'a' }, { name: 'b', weight: 3 }, { name: 'c', weight: 0 }] },
      { selector: { pathPrefix: '/v1' }, backends: [{ name: 'a' }], fallback: [{ name: 'b' }], retry },
      { selector: { pathPrefix: '/hold' }, backends: [{ name: 'a' }], fallback: [{ name: 'd' }], retry },
    ]
    const clock = new ManualClock()
    const edge = await routing({ a, b, c: b, d }, routes, { env: { ...ADMIN_ENV, EDGE_BACKEND_URL: b.url }, clock })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('link', { name: 'Explain', exact: true }).click()
    const shown = async (uri: string): Promise<string | undefined> => {
      await page.getByLabel('URI').fill(uri)
      await page.getByLabel('Host').fill('h')
      await page.getByRole('button', { name: 'Explain' }).click()
      await page
        .getByRole('link', { name: 'Link to this request' })
        .and(page.locator(`[href*="${encodeURIComponent(uri)}"]`))
        .waitFor()
      const text = await page.getByRole('region', { name: 'Where it goes' }).textContent()
      return text?.replaceAll(/\s+/g, ' ').trim()
    }
    expect(await shown('/both')).toBe('Where it goesroutes[0]a✓ next in 25 % of cases b✓ next in 75 % of cases c gets nothing (weight 0)')
    for (let i = 0; i < 3; i++) await (await fetch(`http://127.0.0.1:${edge.port}/v1`)).text()
    expect(await shown('/v1')).toMatch(/^Where it goesroutes\[1\]a ?! cooling \(5xx\) until .+b✓ next fallback$/)
    clock.advance(300_001)
    expect(await shown('/v1')).toBe('Where it goesroutes[1]a✓ next ! one request at a time tries it (5xx)b fallback')
    for (let i = 0; i < 3; i++) await (await fetch(`http://127.0.0.1:${edge.port}/hold`)).text()
    const probe = RawClient.connect(edge.port)
    probe.send('GET /hold/probe HTTP/1.1\r\nHost: h\r\n\r\n')
    await until(() => held)
    expect(await shown('/hold')).toMatch(/All of them cool, and another request tries one: 503 backends_cooling\.$/)
    probe.socket.destroy()
    expect(await shown('/elsewhere')).toContain('No route covers this request: EDGE_BACKEND_URL gets it, if there is one.')
  })

  test('shows the verdict, and every policy and rule with its descriptors and counters', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV, clock: new ManualClock() })
    const fields = [['X-K', 'müller']] as const
    await edge.decideTimes(3, { uri: '/api/x', fields: [['X-K', Buffer.from('müller').toString('latin1')]] })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('link', { name: 'Explain', exact: true }).click()
    await page.getByLabel('URI').fill('/api/x?page=1')
    await page.getByLabel('Header fields').fill(`${fields[0].join(': ')}\n\nAuthorization: Bearer secret-token`)
    await page.getByRole('button', { name: 'Explain' }).click()
    const verdict = page.getByRole('region', { name: 'Verdict' })
    await verdict.getByText('Allowed').waitFor()
    expect(await verdict.locator('.verdict').textContent()).toBe(
      '✓ Allowed with 200, reason within_limits, by policy api, rule per-key. Nothing was taken.'.replace(
        'within_limits',
        await reasonOf(edge.adminPort),
      ),
    )
    await verdict.getByText('RateLimit-Remaining').waitFor()
    const policies = page.getByRole('region', { name: 'Policies that cover it' })
    await policies.getByText('2 of 4').waitFor()
    const perKey = policies.getByRole('listitem').filter({ hasText: 'per-key' })
    expect(await perKey.getByRole('list', { name: 'Descriptors' }).textContent()).toBe('header:x-k müller')
    expect(await perKey.locator('.counter').textContent()).toBe('1 of 4 requests leftfits nowfull again in 30 s')
    expect(await perKey.locator('meter').getAttribute('value')).toBe('1')
    const gold = policies.locator('.rules > li').filter({ hasText: 'gold' })
    await gold.getByText('does not apply: its match does not fit this request').waitFor()
    // A credential is a digest.
    const perToken = policies.locator('.rules > li').filter({ hasText: 'per-token' })
    expect(await perToken.getByRole('list', { name: 'Descriptors' }).textContent()).toMatch(/^bearer [0-9a-f]{16}$/)
    const others = page.getByText('2 policies do not cover it')
    await others.click()
    const rows = page.getByRole('group', { name: 'Policies that do not cover the request' }).getByRole('row')
    await expect
      .poll(() => rows.allTextContents())
      .toEqual(['PolicyModeWhy not', 'writesenforceanother method', 'otherenforceanother path'])
    // Asking took nothing.
    const { json } = await askAdmin(edge.adminPort, 'POST', 'explain', {
      body: { method: 'GET', uri: '/api/x', headers: { 'x-k': Buffer.from('müller').toString('latin1') } },
    })
    expect(json.policies[0].rules[0].counters[0].level).toBe(1)
  })

  test('says which networks an address is in, and when an anchored window ends', async () => {
    const rules = [
      matching({ 'ip:address': ['10.0.0.0/8', '2001:db8::/32'] }, bucketRule('office', [], 9)),
      matching('else', windowRule('others', ['ip:address'], { limit: 5, period: '1w', anchor: 'sunday' })),
    ]
    const edge = await running({ bundle: bundle(1, policy('api', { rules })), clock: new ManualClock(), env: ADMIN_ENV })
    await edge.decideTimes(1, { uri: '/', fields: [['X-Forwarded-For', '192.0.2.1']] })
    const page = await loggedIn(edge.adminPort)
    const ruleOf = async (name: string, address: string) => {
      await page.goto(`http://127.0.0.1:${edge.adminPort}/#/explain`)
      await page.getByLabel('URI').fill('/')
      await page.getByLabel('Header fields').fill(`X-Forwarded-For: ${address}`)
      await page.getByRole('button', { name: 'Explain' }).click()
      return page.getByRole('region', { name: 'Policies that cover it' }).locator('.rules > li').filter({ hasText: name })
    }
    await (await ruleOf('others', '192.0.2.1')).getByText('full again in 2 d 12 h').waitFor()
    await (await ruleOf('office', '192.0.2.1')).getByText('does not apply: its match does not fit this request').waitFor()
    await (await ruleOf('office', '::ffff:10.9.9.9')).getByText('9 of 9 requests left').waitFor()
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/policies?policy=api`)
    const detail = page.getByRole('region', { name: 'api' })
    await detail.getByText(/5 requests per week \(from Sunday\)/).waitFor()
    await detail.getByText(/only where ip:address is 10\.0\.0\.0\/8 or 2001:db8::\/32/).waitFor()
  })

  test('says who the caller is, or why nobody knows', async () => {
    const published = { ...bundle(1), callers: { ...CALLERS, mode: 'enforce' } }
    const edge = await running({ bundle: published, env: ADMIN_ENV, callerReaderOf: () => new GoodCallers() })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/explain`)
    await page.getByLabel('URI').fill('/')
    await page.getByLabel('Header fields').fill('Authorization: Bearer good:ada:blue')
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByText('Caller: okta:ada team=blue').waitFor()
    await page.getByLabel('Header fields').fill('Authorization: Bearer expired')
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByText('Caller: not known, expired').waitFor()
    await page.getByText('Refused with 401, reason unknown_caller').waitFor()
  })

  test('says who rejects, how long to wait, and which override holds', async () => {
    const edge = await running({
      bundle: bundle(1, policy('api', { rules: [bucketRule('per-key', ['header:x-k'], 4, 0.001)] })),
      env: ADMIN_ENV,
    })
    await edge.decideTimes(4, { uri: '/api/x', fields: [['X-K', 'alice']] })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/explain`)
    await page.getByLabel('URI').fill('/api/x')
    await page.getByLabel('Header fields').fill('x-k: alice')
    await page.getByRole('button', { name: 'Explain' }).click()
    const verdict = page.locator('.verdict')
    await verdict.getByText('Rejected').waitFor()
    expect(await verdict.textContent()).toBe(
      '✕ Rejected with 429, reason token_bucket_exceeded, by policy api, rule per-key. Nothing was taken.',
    )
    await page
      .locator('.counter')
      .getByText(/^fits in 16 min/)
      .waitFor()
    const body = { policy: 'api', rule: 'per-key', values: { 'header:x-k': 'alice' }, multiply: 3, until: '1h', reason: 'a test' }
    const { json: override } = await askAdmin(edge.adminPort, 'POST', 'overrides', { body })
    await page.getByRole('button', { name: 'Explain' }).click()
    await verdict.getByText('Allowed').waitFor()
    await page.getByRole('link', { name: override.id }).waitFor()
  })

  test('shows what is wrong at the field that it is about', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/explain`)
    const explain = async (fields: Readonly<Record<string, string>>) => {
      for (const [label, text] of Object.entries(fields)) await page.getByLabel(label).fill(text)
      await page.getByRole('button', { name: 'Explain' }).click()
    }
    const problemOf = async (label: string) => {
      const field = page.getByLabel(label)
      await expect.poll(() => field.getAttribute('aria-invalid')).toBe('true')
      const notes = (await field.getAttribute('aria-describedby'))!.split(' ')
      return page.locator(`[id="${notes.at(-1)}"]`).textContent()
    }
    await explain({ URI: '/a b' })
    expect(await problemOf('URI')).toMatch(/^expected a path such as/)
    await explain({ URI: '/a', Method: 'G E T' })
    expect(await problemOf('Method')).toMatch(/^expected a method such as GET/)
    await explain({ Method: 'GET', 'Header fields': 'x-k: 1\nnonsense' })
    expect(await problemOf('Header fields')).toBe('line 2: expected "Name: value"')
    await explain({ 'Header fields': 'x k: 1' })
    expect(await problemOf('Header fields')).toMatch(/is not the name of a header field/)
    await explain({ 'Header fields': 'x-k: 1\n__proto__: 1' })
    expect(await problemOf('Header fields')).toBe('line 2: a field of this name cannot be explained')
    await explain({ Host: 'a', 'Header fields': 'Host: b' })
    expect(await problemOf('Host')).toMatch(/more than once/)
    await explain({ Host: '', 'Header fields': '', Body: 'x'.repeat(70_000) })
    await page
      .getByRole('alert')
      .getByText(/64 KiB/)
      .waitFor()
    await explain({ Body: '' })
    await page.getByRole('region', { name: 'Verdict' }).waitFor()
    expect(await page.getByRole('alert').count()).toBe(0)
  })

  test('of repeated fields says that they are refused', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/explain`)
    await page.getByLabel('URI').fill('/api')
    await page.getByLabel('Header fields').fill('x-k: a\nX-K: b')
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByText('Refused').waitFor()
    expect(await page.locator('.verdict').textContent()).toMatch(/with 400, reason repeated_descriptor/)
  })

  test('has a link to the request, without credentials and body', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/explain`)
    await page.getByLabel('Method').fill('POST')
    await page.getByLabel('URI').fill('/api/x?a=1&b=2')
    await page.getByLabel('Host').fill('a.example.com')
    await page.getByLabel('Header fields').fill('X-K: a&b=c\nAuthorization: Bearer hidden-1\ncookie: s=hidden-2\nX-Api-Key: hidden-3')
    await page.getByLabel('Body').fill('hidden-4')
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByText('without Authorization, cookie, X-Api-Key').waitFor()
    await page.getByRole('link', { name: 'Link to this request' }).click()
    await expect.poll(() => page.url()).toContain('#/explain?')
    expect(page.url()).not.toContain('hidden')
    await page.reload()
    for (const [label, text] of [
      ['Method', 'POST'],
      ['URI', '/api/x?a=1&b=2'],
      ['Host', 'a.example.com'],
      ['Header fields', 'X-K: a&b=c'],
      ['Body', ''],
    ] as const)
      await expect.poll(() => page.getByLabel(label).inputValue()).toBe(text)
    // A path that is opened without parameters is an empty form again.
    await page.getByRole('link', { name: 'Explain', exact: true }).click()
    await expect.poll(() => page.getByLabel('URI').inputValue()).toBe('')
  })

  test('reads the body in the reverse proxy', async () => {
    const edge = await running({
      bundle: bundle(1, policy('llm', { rules: [llmRule('tokens', [], { tokens_per_minute: 100, max_completion_tokens: 50 })] })),
      env: { ...ADMIN_ENV, EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:1' },
    })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/explain`)
    await page.getByLabel('Method').fill('POST')
    await page.getByLabel('URI').fill('/v1/chat/completions')
    await page.getByLabel('Header fields').fill('Content-Type: application/json')
    await page
      .getByLabel('Body')
      .fill(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x'.repeat(40) }], max_tokens: 20 }))
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByText('applies, takes 30 tokens').waitFor()
  })

  test('says what a stream would reserve and how its reservation grows, in tokens and in money, and what others have reserved', async () => {
    const reserve = { first: 100, step: 100 }
    const rules = [
      llmRule('tokens', [], { tokens_per_day: 9000, reserve }),
      budgetRule('money', [], { budget: 100, period: '1d', prices: 'main', reserve }),
    ]
    const llm = await scriptedLlm()
    const env = { ...ADMIN_ENV, EDGE_SHUTDOWN_MS: '0', ...proxyEnv(llm) }
    const edge = await running({ bundle: { ...bundle(1, policy('llm', { rules })), prices: PRICES }, env, clock: new ManualClock() })
    const asked = JSON.stringify({ model: 'big', messages: HELLO, max_tokens: 900, stream: true })
    const client = new StreamClient(edge.port, CHAT, asked)
    await llm.next()
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('link', { name: 'Explain', exact: true }).click()
    await page.getByLabel('Method').fill('POST')
    await page.getByLabel('URI').fill(CHAT)
    await page.getByLabel('Body').fill(asked)
    await page.getByRole('button', { name: 'Explain' }).click()
    const rule = (name: string) => page.locator('.rules > li').filter({ has: page.getByText(name, { exact: true }) })
    const growth = ', and asks for 100 more completion tokens at a time while its stream runs'
    await rule('tokens')
      .getByText(`applies, takes ${HELLO_TOKENS + 100} tokens${growth}`)
      .waitFor()
    await rule('tokens')
      .getByText(`${HELLO_TOKENS + 100} tokens reserved by requests in flight`)
      .waitFor()
    await rule('money').getByText(`applies, takes 2.09 currency units${growth}`).waitFor()
    await rule('money').getByText('2.09 currency units reserved by requests in flight').waitFor()
    client.abort()
  })

  test('of ten thousand policies shows those that cover it, and the others when asked', async () => {
    const policies = Array.from({ length: 10_000 }, (_, i) =>
      policy(`t-${i}`, { selector: { pathPrefix: `/t/${i}` }, rules: [bucketRule('r', [], 5)] }),
    )
    const edge = await running({ bundle: bundle(1, ...policies), env: { ...ADMIN_ENV, EDGE_STORE_SIZE: '16m' } })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/explain?uri=/t/4711`)
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByRole('region', { name: 'Policies that cover it' }).getByText('t-4711').waitFor()
    await page.getByText('9,999 policies do not cover it').click()
    const table = page.getByRole('group', { name: 'Policies that do not cover the request' })
    await table.getByText('t-0', { exact: true }).waitFor()
    await table.evaluate((element) => element.scrollTo(0, element.scrollHeight))
    await table.getByText('t-9999').waitFor()
    expect(await page.locator('*').count()).toBeLessThan(1500)
  })

  test('shows HTML in names and values as text', async () => {
    const html = '<img src=x onerror=alert(1)>'
    const edge = await running({ bundle: bundle(1, policy(html, { rules: [bucketRule(html, ['header:x-k'], 5)] })), env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/explain?uri=/&headers=${encodeURIComponent(`x-k: ${html}`)}`)
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByRole('list', { name: 'Descriptors' }).getByText(html).waitFor()
    await page.locator('.verdict').getByText(html).first().waitFor()
    expect(await page.locator('main img').count()).toBe(0)
  })
})

/** Of a request that passes. */
async function reasonOf(port: number): Promise<string> {
  return (await askAdmin(port, 'POST', 'explain', { body: { method: 'GET', uri: '/api/x', headers: { 'x-k': 'somebody' } } })).json.reason
}
