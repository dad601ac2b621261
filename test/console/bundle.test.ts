import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV } from '../support/admin/admin-client.ts'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { running } from '../support/service/running.ts'

const RULE = bucketRule('per-key', ['header:x-k'], 10, 5)

describeInBrowser('the view of the bundle', () => {
  test('is empty without a bundle, and says what is wrong with its source', async () => {
    const edge = await running({ env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('link', { name: 'Bundle', exact: true }).click()
    await page.getByText('None yet. Until there is one, every request gets 503.').waitFor()
    await page.getByText(`${edge.bundlePath}: there is no such file`).waitFor()
    await edge.publish(bundle(1, policy('p', { rules: [] })))
    await expectPolicies(page, 'Active bundle', 1)
    await page.getByText('None since edge was started.').waitFor()
    expect(await page.getByText('there is no such file').count()).toBe(0)
  })

  test('shows what the active one changed, as it is applied', async () => {
    const old = policy('old', { selector: { pathPrefix: '/old' }, rules: [RULE] })
    const edge = await running({
      bundle: {
        ...bundle(1, old, policy('api', { mode: 'shadow', rules: [RULE, bucketRule('gone', [], 3)] })),
        prices: { main: { '*': { input: 1, output: 8 } } },
      },
      env: ADMIN_ENV,
    })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/bundle`)
    await expectPolicies(page, 'Active bundle', 2)
    await edge.publish({
      ...bundle(2, policy('api', { rules: [bucketRule('per-key', ['header:x-k'], 20, 5)] }), policy('fresh', { rules: [] })),
      prices: { main: { '*': { input: 2, output: 8 } } },
    })
    const changes = page.getByRole('list', { name: 'Policies that changed' })
    const api = changes.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'api' }) })
    await api.getByText('~ changed').first().waitFor()
    expect(await api.locator('.fields > div').allTextContents()).toEqual([
      'modeshadow → enforce',
      'algorithm_config.burst10 → 20',
      expect.stringMatching(/^limit_keys/),
      expect.anything(),
      expect.anything(),
      expect.anything(),
      expect.anything(),
    ])
    await changes.getByText('− removed').getByText('removed').first().waitFor()
    await changes.getByRole('link', { name: 'fresh' }).waitFor()
    const prices = page.getByRole('list', { name: 'Prices that changed' })
    expect(await prices.locator('.fields > div').allTextContents()).toEqual(['input1 → 2'])
    await page.getByText('1 policy added, 1 removed, 1 changed, 0 unchanged').waitFor()
    await expectPolicies(page, 'Before it', 2)
    await changes.getByRole('link', { name: 'api' }).click()
    await page.getByRole('region', { name: 'api' }).waitFor()
  })

  test('keeps what changed, and lists the problems of a bundle that is refused', async () => {
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    await edge.publish(bundle(2, policy('p', { rules: [] })))
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/bundle`)
    await page.getByRole('list', { name: 'Policies that changed' }).waitFor()
    await replaceFile(
      edge.bundlePath,
      JSON.stringify({ bundle_version: 3, policies: Array.from({ length: 60 }, () => ({ id: '<b>x</b>' })) }),
    )
    await page.getByText('The newest bundle was refused. Version 2 stays active.').waitFor()
    const problems = page.getByRole('list', { name: 'Problems' }).getByRole('listitem')
    expect(await problems.count()).toBe(51)
    expect(await problems.last().textContent()).toMatch(/^and [\d,]+ more problems/)
    expect(await page.locator('main b').count()).toBe(0)
    await page.getByRole('list', { name: 'Policies that changed' }).waitFor()
    await edge.publish(bundle(4))
    await page.getByText('The newest bundle was refused.').waitFor({ state: 'detached' })
  })

  test('shows HTML in names and values as text', async () => {
    const html = '<img src=x onerror=alert(1)>'
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    const rules = [{ ...bucketRule(html, [], 5), match: { 'header:x-v': html } }]
    await edge.publish(bundle(2, policy(html, { rules })))
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/bundle`)
    const changes = page.getByRole('list', { name: 'Policies that changed' })
    await changes.getByRole('link', { name: html }).waitFor()
    expect(await changes.getByText(html).count()).toBe(3)
    expect(await page.locator('main img').count()).toBe(0)
  })
})

/** How many the bundle in this panel has. */
async function expectPolicies(page: Page, panel: string, count: number): Promise<void> {
  const value = page.getByRole('region', { name: panel }).locator('dt', { hasText: 'Policies' }).locator('+ dd')
  await expect.poll(() => value.textContent()).toBe(String(count))
}
