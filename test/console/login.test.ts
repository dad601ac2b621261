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
