import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bundle } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { expectFine, LOOKS } from '../support/console/looks.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { named, routing, saying } from '../support/proxy/routed.ts'
import type { Edge } from '../support/service/edge.ts'
import { running } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'

const BACKENDS = 'Backends of the bundle, and their states'
const ROUTES = 'Routes in their order, and the backends of each'
const MODEL = '<img src=x onerror=alert(1)>'

async function openBackends(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Backends', exact: true }).click()
}

function cells(page: Page, table: string, row: string): Promise<string[]> {
  return page.getByRole('table', { name: table }).getByRole('row', { name: row }).getByRole('cell').allTextContents()
}

async function chat(edge: Edge, times: number, model = 'gpt-4o'): Promise<void> {
  const headers = { 'Content-Type': 'application/json' }
  const body = JSON.stringify({ model, messages: [] })
  for (let i = 0; i < times; i++)
    await (await fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, { method: 'POST', headers, body })).arrayBuffer()
}

async function proxying() {
  const [openai, azure] = [await HttpBackend.start(saying('no', 503, { 'Retry-After': '600' })), await named('azure')]
  const routes = [
    {
      selector: { pathPrefix: '/images' },
      backends: [{ name: 'azure', weight: 3 }, { name: 'openai' }],
      stick_to: ['ip:address'],
      retry: { attempts: 0 },
    },
    {
      match: { 'llm:model': '*' },
      backends: [{ name: 'openai' }],
      fallback: [{ name: 'azure', model: 'small' }],
      retry: { on: ['5xx', 401], attempts: 1 },
    },
  ]
  const more = { openai: { headers: { authorization: 'Bearer {A}' } } }
  const env = { ...ADMIN_ENV, EDGE_BACKEND_MAX_CONNECTIONS: '20', EDGE_SECRET_A: 'canary' }
  return { openai, azure, edge: await routing({ openai, azure }, routes, { more, env }) }
}

describeInBrowser('the view of backends', () => {
  test('shows states, connections, routes and failures as they change, and has a backend tried again', async () => {
    const { openai, azure, edge } = await proxying()
    const page = await loggedIn(edge.adminPort, {}, 'ada')
    await openBackends(page)
    await page.getByText('all healthy').waitFor()
    await expect
      .poll(() => cells(page, BACKENDS, 'openai'))
      .toEqual(
        ['healthy', '0 of 10', '0', 'routes[0] weight 1 of 4routes[1] weight 1 of 1', 'none', 'none'].map((text) =>
          expect.stringContaining(text),
        ),
      )
    await expect.poll(async () => (await cells(page, BACKENDS, 'azure'))[3]).toBe('routes[0] weight 3 of 4routes[1] fallback 1')
    await expect
      .poll(() => cells(page, ROUTES, 'routes[0]'))
      .toEqual(['below /images', 'azure, weight 3 of 4openai, weight 1 of 4the same one for the same ip:address', 'none', 'never'])
    await expect
      .poll(() => cells(page, ROUTES, 'routes[1]'))
      .toEqual(['every path, matched by llm:model', 'openai', 'azure as small', 'up to 1 time'])
    await page.getByText('A request that no route covers gets 404: EDGE_BACKEND_URL is not set.').waitFor()
    await page.getByText(azure.url).waitFor()
    expect(await page.getByRole('button', { name: 'Try now' }).count()).toBe(0)

    await chat(edge, 3)
    await page.getByText('1 failing').waitFor()
    await expect
      .poll(async () => (await cells(page, BACKENDS, 'openai'))[0])
      .toMatch(/cooling until .*3 failures in a row: status 500 or above, or broken connectionfailing since /)
    await expect.poll(async () => (await cells(page, BACKENDS, 'openai'))[4]).toMatch(/^status 500 or above, or broken connection/)
    await page.getByRole('button', { name: /^Try now ?: openai$/ }).click()
    const dialog = page.getByRole('dialog', { name: 'Try openai now?' })
    await dialog.getByLabel('Reason').fill('it is back')
    await dialog.getByRole('button', { name: 'Try now' }).click()
    await page.getByText('The next request tries openai, at this instance.').waitFor()
    await expect.poll(async () => (await cells(page, BACKENDS, 'openai'))[0]).toContain('one request at a time tries it')
    expect(await untilLogged(edge, 'backend_retried')).toMatchObject([{ actor: 'ada', reason: 'it is back', backend: 'openai' }])

    openai.handler = saying('no', 401, { 'Retry-After': '600' })
    await chat(edge, 1, MODEL)
    await expect
      .poll(async () => (await cells(page, BACKENDS, 'openai'))[0])
      .toMatch(/^✓ healthy<img src=x onerror=alert\(1\)> cools until .*, status 401: credential refused$/)
    expect(await page.locator('main img').count()).toBe(0)
    await page.getByText('1 model refused').waitFor()
    await page.getByRole('link', { name: 'Overview', exact: true }).click()
    await page.getByText('backend openai refuses its credential (status 401) for').waitFor()
    await page.getByRole('link', { name: 'Changes', exact: true }).click()
    await page
      .getByRole('row', { name: /backend tried again/ })
      .getByRole('link', { name: 'openai' })
      .waitFor()
    expect(await page.content()).not.toContain('canary')
  })

  test('is fine at every size and in all colours, while backends fail', async () => {
    const { openai, edge } = await proxying()
    await chat(edge, 1)
    openai.handler = saying('no', 401, { 'Retry-After': '600' })
    await chat(edge, 1, `a-model-with-a-long-name-${'x'.repeat(60)}`)
    openai.handler = saying('no', 500)
    await chat(edge, 4)
    const page = await loggedIn(edge.adminPort)
    await openBackends(page)
    await page.getByText('1 failing').waitFor()
    for (const [look, { viewport, colorScheme }] of LOOKS) {
      await page.setViewportSize(viewport!)
      await page.emulateMedia({ colorScheme: colorScheme! })
      await expectFine(page, look)
    }
  })

  test('says why a backend cannot be tried, and changes nothing', async () => {
    const { openai, edge } = await proxying()
    await chat(edge, 3)
    const page = await loggedIn(edge.adminPort)
    await openBackends(page)
    await page.getByRole('button', { name: /^Try now ?: openai$/ }).click()
    // Meanwhile somebody else has had it tried, and it has answered.
    openai.handler = saying('openai')
    await askAdmin(edge.adminPort, 'POST', 'backends/openai/retry', { body: { reason: 'r' } })
    await chat(edge, 1)
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('again')
    await dialog.getByRole('button', { name: 'Try now' }).click()
    await dialog.getByText('backend "openai" does not cool, so there is nothing to retry').waitFor()
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await page.getByText('all healthy').waitFor()
    await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('H1')
  })

  test('says how to begin where there are no routes, and that a decision service forwards nothing', async () => {
    const env = { ...ADMIN_ENV, EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:1', EDGE_BACKEND_MAX_CONNECTIONS: '7' }
    const proxy = await running({ bundle: bundle(1), env })
    const page = await loggedIn(proxy.adminPort)
    await openBackends(page)
    await page.getByText('so EDGE_BACKEND_URL is the one backend: all requests go to it').waitFor()
    await page.getByText('0 of 7').waitFor()
    const service = await running({ bundle: bundle(1), env: ADMIN_ENV })
    const other = await loggedIn(service.adminPort)
    await openBackends(other)
    await other.getByText('This is a decision service: it forwards nothing').waitFor()
  })
})
