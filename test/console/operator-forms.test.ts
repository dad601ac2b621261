import type { BrowserContextOptions } from 'playwright-core'
import { expect, test } from 'vitest'
import { findings } from '../support/console/axe.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { busyService } from '../support/console/busy-service.ts'

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true }
const LOOKS: readonly (readonly [string, BrowserContextOptions])[] = [
  ['light', { colorScheme: 'light' }],
  ['dark, on a phone', { colorScheme: 'dark', ...PHONE }],
]

describeInBrowser('forms and dialogs', () => {
  test.each(LOOKS)('have nothing that axe-core objects to: %s', async (_look, options) => {
    const edge = await busyService()
    const page = await loggedIn(edge.adminPort, options)
    const expectNone = async (what: string): Promise<void> => {
      expect([what, await findings(page)]).toEqual([what, []])
      expect([what, await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')]).toEqual([what, 0])
    }
    await page.getByRole('link', { name: 'Overrides' }).click()
    await page.getByRole('button', { name: 'New override' }).click()
    await page.getByLabel('Policy').fill('search')
    for (const change of ['Block', 'Set limits']) await page.getByLabel(change).check()
    await page.getByLabel('Until…').check()
    await expectNone('the form of an override')
    await page.getByLabel('For…').check()
    await page.getByLabel('Duration').fill('never')
    await page.getByLabel('Reason').fill('a reason')
    await page.getByRole('button', { name: 'Preview…' }).click()
    await page.locator('.error').first().waitFor()
    await expectNone('a form with an error')
    await page.getByRole('button', { name: /^End 3 × the limit/ }).click()
    await expectNone('the end of an override')
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Stop enforcing…' }).click()
    await expectNone('the end of enforcement')
    await page.keyboard.press('Escape')
    await page.getByRole('link', { name: 'Callers' }).click()
    await page.getByRole('button', { name: 'Counters of initech' }).first().click()
    await page.getByRole('dialog').getByText('0 of 5 requests left').waitFor()
    await expectNone('the counters of a caller')
    await page.getByRole('button', { name: 'Reset…' }).click()
    await expectNone('a reset')
  })
})
