import { expect, test } from 'vitest'
import { ADMIN_ENV } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn, newPage } from '../support/console/browser.ts'
import { focused } from '../support/console/keyboard.ts'
import { running } from '../support/service/running.ts'

const BUNDLE = bundle(7, policy('search', { rules: [bucketRule('r', ['header:x-k'], 10, 1)] }))

describeInBrowser('the login', () => {
  test('with the admin token shows the policies, and a second visit needs none', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.getByText('search').waitFor()
    await page.reload()
    await page.getByText('search').waitFor()
  })

  test('with the token for reading shows everything but what changes something, in every tab', async () => {
    const token = 'a-token-for-reading-of-thirty-two-characters-or-more'
    const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_ADMIN_READ_TOKEN: token } })
    const page = await newPage()
    await page.goto(`http://127.0.0.1:${edge.adminPort}/`)
    await page.locator('input[type=password]').fill(token)
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByText('Read only').waitFor()
    const expectNoChanges = async (view: string): Promise<void> => {
      await page.goto(`http://127.0.0.1:${edge.adminPort}/#/${view}`)
      await page.reload()
      await page.getByText('Read only').waitFor()
      await page.locator('main .panel, main table, main p').first().waitFor()
      const names = await page.getByRole('button').allTextContents()
      expect(names.filter((name) => /…|^(New|Add|Set|Stop)/.test(name))).toEqual([])
    }
    for (const view of ['overrides', 'keys']) await expectNoChanges(view)
    // A tab that logs in with the other token makes this one an operator's.
    const other = await page.context().newPage()
    await other.goto(`http://127.0.0.1:${edge.adminPort}/`)
    await other.getByText('Read only').waitFor()
    await other.getByRole('button', { name: 'Log out' }).click()
    await other.locator('input[type=password]').fill(ADMIN_ENV.EDGE_ADMIN_TOKEN)
    await other.getByRole('button', { name: 'Log in' }).click()
    await other.getByRole('navigation', { name: 'Views' }).waitFor()
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/overrides`)
    await page.getByRole('button', { name: 'Stop enforcing…' }).waitFor()
    expect(await page.getByText('Read only').count()).toBe(0)
  })

  test('says that a token is wrong', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await newPage()
    await page.goto(`http://127.0.0.1:${edge.adminPort}/`)
    await expect.poll(() => focused(page)).toBe('Admin token')
    await page.keyboard.type('wrong')
    await page.keyboard.press('Enter')
    await expect.poll(() => page.getByRole('alert').textContent()).toMatch(/token/)
  })
})
