import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN } from '../support/admin/admin-client.ts'
import { Operator } from '../support/admin/operator.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import type { Edge } from '../support/service/edge.ts'
import { running } from '../support/service/running.ts'

const BUNDLE = bundle(1, policy('api', { rules: [bucketRule('everybody', [], 1, 0.0001)] }))
/** Reads as JSON, although it is sent as a form: `{"unlimited":true,…,"reason":"="}`. */
const FORM_FIELD = '{"policy":"api","rule":"everybody","unlimited":true,"until":"1h","reason":"'

/** What a script of the page could read. */
const KEPT = `(async () => ({
  cookie: document.cookie,
  storage: [{ ...localStorage }, sessionStorage.length],
  databases: await indexedDB.databases(),
  caches: await caches.keys(),
  name: window.name,
  state: history.state,
}))()`
const SHOWN = `({
  html: document.documentElement.outerHTML,
  typed: [...document.querySelectorAll('input')].map(({ value }) => value),
  asked: performance.getEntries().map(({ name }) => name),
  address: location.href,
})`

describeInBrowser('a session of the page', () => {
  test('is a cookie that no script can read, and the token is nowhere', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    expect(await page.context().cookies()).toEqual([
      expect.objectContaining({ name: 'edge_admin', httpOnly: true, sameSite: 'Strict', path: '/admin/v1/' }),
    ])
    // The name of the operator, for the header of the page, and what changes need beside the cookie.
    const storage = [{ edge_actor: '', edge_csrf: expect.stringMatching(/^[\w-]{43}$/) }, 0]
    expect(await page.evaluate(KEPT)).toEqual({ cookie: '', storage, databases: [], caches: [], name: '', state: null })
    expect(JSON.stringify(await page.evaluate(SHOWN))).not.toContain(ADMIN_TOKEN)
  })

  test.each([
    ['of another port of this machine, to which the browser sends the cookie', '127.0.0.1', 403],
    ['of another site, to which it does not', 'localhost', 401],
  ])('is of no use to a page %s', async (_, host, status) => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const own = await loggedIn(edge.adminPort)
    const other = await otherPage(own, host, formTo(edge.adminPort))
    const seen = await other.evaluate(async (api) => {
      const init = {
        method: 'POST',
        mode: 'no-cors',
        credentials: 'include',
        body: '{"shadow_all":true,"until":"1h","reason":"x"}',
      } as const
      const changed = await fetch(`${api}/overrides`, init)
      const read = await fetch(`${api}/status`, { mode: 'no-cors', credentials: 'include' })
      return [changed.type, read.type, await read.text()]
    }, api(edge.adminPort))
    expect(seen).toEqual(['opaque', 'opaque', ''])
    const [response] = await Promise.all([
      other.waitForResponse((received) => received.url().endsWith('/admin/v1/overrides')),
      other.locator('button').click(),
    ])
    expect(response.status()).toBe(status)
    await expectUnchanged(edge)
  })

  test('cannot be shown in a frame of another page', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const own = await loggedIn(edge.adminPort)
    const other = await otherPage(own, '127.0.0.1', `<iframe src="http://127.0.0.1:${edge.adminPort}/"></iframe>`)
    const frame = other.frames()[1]!
    await expect.poll(() => frame.url()).toBe('chrome-error://chromewebdata/')
    expect(await frame.locator('input, nav').count()).toBe(0)
  })
})

function api(port: number): string {
  return `http://127.0.0.1:${port}/admin/v1`
}

function formTo(port: number): string {
  return `<form method="post" enctype="text/plain" action="${api(port)}/overrides">
    <input name='${FORM_FIELD}' value='"}'><button>Win</button></form>`
}

/** A page of somebody else in the same browser, which has the operator's cookie. */
async function otherPage(own: Page, host: string, html: string): Promise<Page> {
  const server = createServer((_req, res) => res.setHeader('Content-Type', 'text/html').end(html))
  onTestFinished(() => void server.close())
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const other = await own.context().newPage()
  await other.goto(`http://${host}:${(server.address() as AddressInfo).port}/`)
  return other
}

async function expectUnchanged(edge: Edge): Promise<void> {
  expect(await new Operator(edge.adminPort).overrides()).toEqual([])
  expect(await edge.decideTimes(2)).toEqual([200, 429])
}
