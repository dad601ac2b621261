import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import type { ChangeJson } from '../../src/admin/api/instance-types.ts'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { running } from '../support/service/running.ts'

const BUNDLE = bundle(1, policy('search', { rules: [bucketRule('per-key', ['header:x-k'], 1, 0.001)] }))
const RULE = { policy: 'search', rule: 'per-key', values: { 'header:x-k': 'acme' } }

describeInBrowser('the changes', () => {
  test('are one list of bundles, overrides and resets, with who and why, the newest first', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const body = { ...RULE, multiply: 3, until: '2h', reason: 'ticket 4711' }
    const { json } = await askAdmin(edge.adminPort, 'POST', 'overrides', { body, actor: 'ada' })
    await askAdmin(edge.adminPort, 'POST', 'counters/reset', { body: { ...RULE, reason: 'they were right' }, actor: 'grace' })
    await edge.publish({ ...BUNDLE, bundle_version: 2 })
    await edge.publish(JSON.stringify({ bundle_version: 3, policies: [{ id: 1 }] }))
    const page = await changesOf(edge.adminPort)
    await expect.poll(() => kinds(page)).toEqual(['✕ bundle refused', 'bundle', 'reset', 'override', 'bundle'])
    const rows = page.getByRole('rowgroup').last().getByRole('row')
    const texts = await rows.allTextContents()
    expect(texts[0]).toMatch(
      /A bundle was refused; version 2 stays activepolicies\[0\].*\(line 1, column \d+\)from .*by whom is not known$/,
    )
    expect(texts[1]).toContain(`version 2 is active in place of version 1from ${edge.bundlePath}`)
    expect(texts[2]).toContain('The counters were resetsearch · per-keyheader:x-k acmegracethey were right')
    expect(texts[3]).toMatch(/multiply 3 until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\+5:30.*header:x-k acmeadaticket 4711$/)
    expect(await rows.first().getByRole('rowheader').locator('time').textContent()).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\+5:30$/)
    expect(await rows.getByRole('link', { name: json.id }).getAttribute('href')).toBe(`#/overrides?id=${json.id}`)
    expect(await rows.getByRole('link', { name: 'search' }).first().getAttribute('href')).toBe('#/policies?policy=search')

    await page.getByRole('button', { name: 'overrides 1' }).click()
    await expect.poll(() => kinds(page)).toEqual(['override'])
    await page.getByRole('button', { name: 'all 5' }).click()
    await page.getByLabel('Filter').fill('GRACE')
    await expect.poll(() => kinds(page)).toEqual(['reset'])
    await page.getByLabel('Filter').fill('nobody')
    await page.getByText('No change matches.').waitFor()
    await page.getByLabel('Filter').fill('')
    await rows.nth(1).getByRole('link', { name: 'version 2' }).click()
    await page.getByRole('region', { name: 'Active bundle: version 2' }).waitFor()
    await page.goBack()
    await rows.getByRole('link', { name: json.id }).click()
    await expect.poll(() => page.locator('tr[aria-current]').textContent()).toContain(json.id)
  })

  test('appear as they are made, and overrides that ended stay', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await changesOf(edge.adminPort)
    await expect.poll(() => kinds(page)).toEqual(['bundle'])
    const body = { shadow_all: true, until: '2h', reason: 'nothing works' }
    const { json } = await askAdmin(edge.adminPort, 'POST', 'overrides', { body, actor: 'ada' })
    await page.getByText('all policies').waitFor()
    const ended = await askAdmin(edge.adminPort, 'DELETE', `overrides/${json.id}?reason=it%20works`, { actor: 'bob' })
    expect(ended.status).toBe(204)
    await expect.poll(() => kinds(page)).toEqual(['override ended', 'override', 'bundle'])
    await page.getByText('it works').waitFor()
  })

  test('name who published a bundle, and why, where that is known', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.route('**/admin/v1/changes?*', async (route) => {
      const response = await (await route.fetch()).json()
      const changes = response.changes.map((change: ChangeJson) => ({ ...change, actor: 'linus', reason: 'pull request 12 \u202e' }))
      await route.fulfill({ json: { ...response, changes } })
    })
    for (const view of ['changes', 'bundle']) {
      await page.goto(`http://127.0.0.1:${edge.adminPort}/#/${view}`)
      await page.getByText('linus').first().waitFor()
      await page.getByText('pull request 12 \\u{202e}').first().waitFor()
    }
  })

  test('are listed up to a hundred first, and all that are kept on demand', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const body = { ...RULE, reason: 'again' }
    for (let i = 0; i < 105; i++) await askAdmin(edge.adminPort, 'POST', 'counters/reset', { body, actor: `person-${i}` })
    const page = await changesOf(edge.adminPort)
    await page.getByRole('button', { name: 'all 100' }).waitFor()
    await page.getByText('Older changes are missing').waitFor()
    await page.getByRole('button', { name: 'Show up to 500' }).click()
    await page.getByRole('button', { name: 'all 106' }).waitFor()
    await page.getByText('Older changes are missing').waitFor({ state: 'detached' })
  })
})

async function changesOf(port: number): Promise<Page> {
  const page = await loggedIn(port, { timezoneId: 'Asia/Kolkata' })
  await page.getByRole('link', { name: 'Changes' }).click()
  await page.getByRole('heading', { level: 1, name: 'Changes' }).waitFor()
  return page
}

function kinds(page: Page): Promise<readonly string[]> {
  return page.getByRole('rowheader').locator('.badge').allTextContents()
}
