import type { Page } from 'playwright-core'
import { beforeAll, test } from 'vitest'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { busyProxy, busyService } from '../support/console/busy-service.ts'
import { inEveryView } from '../support/console/every-view.ts'
import { expectFine, LOOKS } from '../support/console/looks.ts'
import type { Edge } from '../support/service/edge.ts'
import { thisSuite } from '../support/service/suite-owner.ts'

describeInBrowser('whatever the size and the colours', () => {
  const suite = thisSuite()
  let edge: Edge
  let proxy: Edge
  beforeAll(async () => {
    edge = await busyService(suite)
    proxy = await busyProxy(suite)
  })

  test.each(LOOKS)('every view is accessible and fits: %s', async (_look, options) => {
    for (const { adminPort } of [edge, proxy]) {
      const page = await loggedIn(adminPort, options)
      await inEveryView(page, (title) => expectFine(page, title))
    }
  })

  test.each(LOOKS)('every form and dialog is accessible and fits: %s', async (_look, options) => {
    const page = await loggedIn(edge.adminPort, options)
    await view(page, 'Overrides')
    await page.getByRole('button', { name: 'New override' }).click()
    await page.getByLabel('Policy').fill('search')
    await page.getByLabel('All callers of the rule').check()
    for (const change of ['Block', 'Set limits']) {
      await page.getByLabel(change).check()
      await expectFine(page, `the form of an override: ${change}`)
    }
    await page.getByLabel('Reason').fill('a reason')
    await page.getByLabel('Burst').fill('99')
    await page.getByRole('button', { name: 'Preview…' }).click()
    await page.getByRole('dialog').getByText('active here in the last ten minutes').waitFor()
    await expectFine(page, 'the preview of an override for all callers')
    await page.keyboard.press('Escape')
    await page.getByLabel('One caller').check()
    await page.getByLabel('header:x-api-key').fill('acme')
    await page.getByRole('button', { name: 'Preview…' }).click()
    await page.getByRole('dialog', { name: 'Replace the existing override?' }).waitFor()
    await expectFine(page, 'the preview of an override that replaces another')
    await page.keyboard.press('Escape')
    await page.getByLabel('Until…').check()
    await expectFine(page, 'the form with a time')
    await page.getByLabel('For…').check()
    await page.getByLabel('Duration').fill('never')
    await page.getByRole('button', { name: 'Preview…' }).click()
    await page.locator('.error').first().waitFor()
    await expectFine(page, 'a form with an error')
    for (const action of ['Extend', 'Edit', 'End']) {
      await page.getByRole('button', { name: new RegExp(`^${action} 3 × the limit for acme`) }).click()
      await page.getByRole('dialog').getByLabel('Reason').fill('a reason')
      await expectFine(page, action)
      if (action === 'Edit') {
        await page.getByLabel('Multiply by').fill('4')
        await page.getByRole('dialog').getByRole('button', { name: 'Preview…' }).click()
        await page.getByRole('dialog', { name: 'Change the override?' }).waitFor()
        await expectFine(page, 'the preview of an edit')
        await page.keyboard.press('Escape')
      }
      await page.keyboard.press('Escape')
    }
    await page.getByRole('button', { name: 'Stop enforcing…' }).click()
    await expectFine(page, 'the end of enforcement')
    await page.keyboard.press('Escape')
    await view(page, 'Callers')
    const lookup = page.getByRole('region', { name: 'Look up a counter' })
    await lookup.getByLabel('Policy').fill('search')
    await lookup.getByLabel('header:x-api-key').fill('initech')
    await page.keyboard.press('Enter')
    await page
      .getByRole('dialog')
      .getByText(/^\d of 5 requests left/)
      .waitFor()
    await expectFine(page, 'the counters of a caller')
    await page.getByRole('button', { name: 'Reset…' }).click()
    await expectFine(page, 'a reset')
    await page.reload()
    await view(page, 'Keys')
    await page.getByRole('button', { name: 'New key' }).click()
    await page.getByLabel('Name 1').fill('team')
    await page.getByLabel('Value 1').fill('search')
    await page.getByRole('button', { name: 'Add a label' }).click()
    await page.getByLabel('At…').check()
    await expectFine(page, 'the form of a key')
    await page.getByRole('button', { name: 'Remove label 2' }).click()
    await page.getByLabel('1 d', { exact: true }).check()
    await page.getByLabel('Reason').fill('a reason')
    await page.getByRole('button', { name: 'Issue key' }).click()
    await page.getByRole('dialog', { name: /is issued$/ }).waitFor()
    await expectFine(page, 'a key that was just issued')
    await page.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('button', { name: 'Only user=ada' }).first().click()
    await page.getByRole('list', { name: 'Only keys with' }).waitFor()
    await page.getByLabel('Find keys').fill('nonsense')
    await page.keyboard.press('Enter')
    await page.locator('.error').first().waitFor()
    await expectFine(page, 'keys with a label, and an error')
    await page.getByRole('rowheader').getByRole('link').first().click()
    await page.getByRole('region', { name: 'History' }).getByText('key issued').waitFor()
    await expectFine(page, 'a key')
    await page.getByRole('button', { name: 'Change…' }).click()
    await page.getByRole('dialog').getByLabel('Value 1').fill('ads')
    await page.getByRole('dialog').getByLabel('Reason').fill('a reason')
    await expectFine(page, 'the change of a key')
    await page.getByRole('button', { name: 'Preview…' }).click()
    await page.getByRole('dialog', { name: 'Change the key?' }).waitFor()
    await expectFine(page, 'the preview of the change of a key')
    await page.keyboard.press('Escape')
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Revoke…' }).click()
    await expectFine(page, 'the end of a key')
    await page.keyboard.press('Escape')
    await page.reload()
    await page.getByRole('searchbox', { name: 'Find a caller' }).waitFor()
    await page.keyboard.press('/')
    await page.locator('.find input:focus').waitFor()
    await expectFine(page, 'the field for callers')
    await page.keyboard.type('header:x-api-key=acme')
    await page.keyboard.press('Enter')
    await page.getByRole('region', { name: 'Counters', exact: true }).getByRole('link', { name: 'search' }).waitFor()
    await expectFine(page, 'a caller')
    await page.getByRole('button', { name: 'Explain' }).first().click()
    await page.getByRole('heading', { level: 1, name: 'Explain' }).waitFor()
    await expectFine(page, 'a request that is filled in')
  })

  test.each(LOOKS)('the choice about streams is accessible and fits: %s', async (_look, options) => {
    const page = await loggedIn(proxy.adminPort, options)
    await view(page, 'Overrides')
    await page.getByRole('button', { name: 'New override' }).click()
    await page.getByLabel('Policy').fill('chat')
    await page.getByLabel('Rule', { exact: true }).selectOption('tokens')
    await page.getByLabel('header:x-api-key').fill('acme')
    await page.getByLabel('Block').check()
    await page.getByLabel('Cut open streams').check()
    await page.getByLabel('Reason').fill('a reason')
    await expectFine(page, 'the form of a block')
    await page.getByRole('button', { name: 'Preview…' }).click()
    await page.getByRole('dialog').getByText('Those of the blocked callers are cut.').waitFor()
    await expectFine(page, 'the preview of a block')
  })
})

function view(page: Page, title: string): Promise<void> {
  return page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: title, exact: true }).click()
}
