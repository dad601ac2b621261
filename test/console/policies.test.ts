import { expect, test } from 'vitest'
import { ADMIN_ENV } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy, windowRule } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'

const PER_KEY = bucketRule('per-key', ['header:x-k'], 2, 1e-6)
const MANY = 10_000

function tenants(count: number): ReturnType<typeof policy>[] {
  return Array.from({ length: count }, (_, i) =>
    policy(`tenant-${i}`, { selector: { pathPrefix: `/tenants/${i}` }, rules: [bucketRule('r', ['header:x-k'], 10 + i, 5)] }),
  )
}

describeInBrowser('the view of policies', () => {
  test('shows each with its mode, what it covers, its limits in words, and what it decided in the last minute', async () => {
    const edge = await running({
      bundle: bundle(
        1,
        policy('api', {
          selector: { pathPrefix: '/api', methods: ['GET'] },
          rules: [PER_KEY, windowRule('day', [], { limit: 1000, period: '1d' })],
        }),
        policy('trial', { mode: 'shadow', selector: { pathPrefix: '/trial' }, rules: [PER_KEY] }),
      ),
      env: ADMIN_ENV,
      clock: new ManualClock(),
    })
    await edge.decideTimes(5, { uri: '/api/x', fields: [['X-K', 'alice']] })
    await edge.decideTimes(3, { uri: '/trial', fields: [['X-K', 'alice']] })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('link', { name: 'Policies', exact: true }).click()
    const columns = page.getByRole('columnheader')
    await expect
      .poll(async () => (await columns.allTextContents()).slice(-3))
      .toEqual(['Allowed, last minute', 'Rejected, last minute', 'Would reject, last minute'])
    const api = page.getByRole('row', { name: /^api / })
    await expect
      .poll(() => api.getByRole('cell').allTextContents())
      .toEqual(['enforce', 'GET below /api', '2 rules: 0.0864 requests per day, burst 2, per header:x-k …', '2', '3', '0'])
    const trial = page.getByRole('row', { name: /^trial / })
    expect((await trial.getByRole('cell').allTextContents()).slice(3)).toEqual(['3', '0', '1'])
    expect(await trial.getByRole('cell').first().textContent()).toBe('shadow')

    await page.getByRole('link', { name: 'api', exact: true }).click()
    await expect.poll(() => page.url()).toMatch(/#\/policies\?policy=api$/)
    const detail = page.getByRole('region', { name: 'api', exact: true })
    await detail.getByText('1,000 requests per day, for everybody together').waitFor()
    const links = await detail.getByRole('listitem').first().getByRole('link').all()
    expect(await Promise.all(links.map((link) => link.getAttribute('href')))).toEqual([
      '#/callers?policy=api&rule=per-key',
      '#/overrides?policy=api&rule=per-key',
    ])
    // The figures follow.
    await edge.decideTimes(2, { uri: '/api/x', fields: [['X-K', 'alice']] })
    await detail.getByText('5 requests rejected in the last minute').waitFor()
    await expect.poll(async () => (await api.getByRole('cell').allTextContents()).at(-2)).toBe('5')
    await detail.getByRole('link', { name: 'Close' }).click()
    await detail.waitFor({ state: 'detached' })
  })

  test('says on a phone what was let pass beside what was rejected', async () => {
    const edge = await running({ bundle: bundle(1, policy('tenant-of-medium-length', { rules: [PER_KEY] })), env: ADMIN_ENV })
    await edge.decideTimes(3, { uri: '/', fields: [['X-K', 'alice']] })
    const page = await loggedIn(edge.adminPort, { viewport: { width: 360, height: 740 } })
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/policies`)
    const row = page.getByRole('row', { name: /^tenant-of-medium-length / })
    const visible = async () => (await Promise.all((await row.getByRole('cell').all()).map((cell) => cell.innerText()))).filter(Boolean)
    await expect.poll(visible).toEqual(['enforce', '2', '1', '0'])
    const hidden = `[...document.querySelectorAll('main .table')].map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)`
    await expect.poll(() => page.evaluate(hidden)).toEqual([0])
  })

  test('is empty without a bundle, and follows the bundle', async () => {
    const edge = await running({ env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/policies`)
    await page.getByText('There is no bundle yet.').waitFor()
    await edge.publish(bundle(1))
    await page.getByText('The bundle has no policies.').waitFor()
    await edge.publish(bundle(2, policy('new', { rules: [] })))
    await page.getByRole('row', { name: /^new / }).waitFor()
    await edge.publish(bundle(3, policy('other', { rules: [] })))
    await page.getByRole('row', { name: /^other / }).waitFor()
    expect(await page.getByRole('row', { name: /^new / }).count()).toBe(0)
  })

  test('of ten thousand has a bounded part in the page, scrolls through all, and the filter finds one', async () => {
    const edge = await running({ bundle: bundle(1, ...tenants(MANY)), env: { ...ADMIN_ENV, EDGE_STORE_SIZE: '16m' } })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/policies`)
    const table = page.getByRole('group', { name: /^Policies, with/ })
    await table.getByRole('link', { name: 'tenant-0', exact: true }).waitFor()
    await page.getByText('10,000 policies').waitFor()
    const rowCount = () => table.locator('tbody tr').count()
    expect(await rowCount()).toBeLessThan(80)
    // To the end, however often it moves away because more is loaded.
    const last = table.getByRole('link', { name: `tenant-${MANY - 1}`, exact: true })
    await expect
      .poll(async () => {
        await table.evaluate((element) => element.scrollTo(0, element.scrollHeight))
        return last.isVisible()
      })
      .toBe(true)
    expect(await rowCount()).toBeLessThan(80)
    expect(await page.locator('*').count()).toBeLessThan(1500)
    await table.evaluate((element) => element.scrollTo(0, 5000 * 32))
    await table.getByRole('link', { name: 'tenant-5000', exact: true }).waitFor()
    await page.getByLabel('Filter').fill('TENANT-4711')
    await page.getByText('1 of 10,000 policies').waitFor()
    await expect.poll(() => table.getByRole('row').allTextContents()).toHaveLength(2)
    await table.getByRole('link', { name: 'tenant-4711' }).click()
    await page.getByRole('region', { name: 'tenant-4711' }).getByText('5 requests per second, burst 4,721, per header:x-k').waitFor()
    await page.getByLabel('Filter').fill('no such thing')
    await page.getByText('No policy contains this text.').waitFor()
    await page.getByLabel('Filter').fill('')
    await table.getByRole('link', { name: 'tenant-0', exact: true }).waitFor()
  })

  test('goes on at its end where it was loaded anew while more of it was on the way', async () => {
    const edge = await running({ bundle: bundle(1, ...tenants(700)), env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/policies`)
    const table = page.getByRole('group', { name: /^Policies, with/ })
    await table.getByRole('link', { name: 'tenant-0', exact: true }).waitFor()
    const isMore = ({ searchParams }: URL): boolean => searchParams.has('after') && searchParams.get('limit') === '500'
    await page.route(isMore, () => {})
    const asked = page.waitForRequest((request) => isMore(new URL(request.url())))
    await table.evaluate((element) => element.scrollTo(0, element.scrollHeight))
    await asked
    const isLoaded = page.waitForResponse((response) => /\/policies\?limit=500$/.test(response.url()))
    await edge.publish(bundle(2, ...tenants(700)))
    await isLoaded
    await page.unroute(isMore)
    await expect
      .poll(async () => {
        await table.evaluate((element) => element.scrollTo(0, element.scrollHeight))
        return table.getByRole('link', { name: 'tenant-699', exact: true }).isVisible()
      })
      .toBe(true)
  })

  test('opens one policy by its address, and says when it is not there', async () => {
    const edge = await running({ bundle: bundle(1, ...tenants(700)), env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/policies?policy=tenant-650`)
    await page.getByRole('region', { name: 'tenant-650' }).getByText('below /tenants/650').waitFor()
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/policies?policy=nothing`)
    await page.getByText('The active bundle has no policy of this name.').waitFor()
  })

  test('shows HTML in names and values as text', async () => {
    const html = '<img src=x onerror=alert(1)>'
    const rules = [{ ...bucketRule(html, ['header:x-k'], 5), match: { 'header:x-v': html } }]
    const edge = await running({ bundle: bundle(1, policy(html, { selector: { pathPrefix: '/<b>' }, rules })), env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/policies?policy=${encodeURIComponent(html)}`)
    await page.getByRole('region', { name: html }).getByText(`only where header:x-v is ${html}`).waitFor()
    expect(await page.locator('main img, main b').count()).toBe(0)
  })
})
