import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { inEveryView } from '../support/console/every-view.ts'
import { running } from '../support/service/running.ts'

const ATTACK = '<img src=x onerror="window.attacked=1"><script>window.attacked=1</script><b>bold</b>'

describeInBrowser('HTML in names, values, reasons and actors', () => {
  test('is text in every view', async () => {
    const rule = bucketRule(ATTACK, ['header:x-k'], 1, 0.001)
    const edge = await running({ bundle: bundle(1, policy(ATTACK, { rules: [rule] })), env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort, {}, ATTACK)
    await edge.decideTimes(3, { fields: [['x-k', ATTACK]] })
    const named = { policy: ATTACK, rule: ATTACK, reason: ATTACK }
    const override = { ...named, values: { 'header:x-k': ATTACK }, multiply: 2, until: '1h' }
    expect((await askAdmin(edge.adminPort, 'POST', 'overrides', { body: override, actor: ATTACK })).status).toBe(201)
    await edge.publish('<script>window.attacked=1</script>')
    await inEveryView(page, async (title) => {
      const elements = await page.locator('img, b, #console script').count()
      expect([title, elements, await page.evaluate('window.attacked')]).toEqual([title, 0, undefined])
    })
    await page.getByText('<b>bold</b>').first().waitFor()
  })
})
