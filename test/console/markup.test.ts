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
    const key = { labels: { team: ATTACK }, reason: ATTACK }
    expect((await askAdmin(edge.adminPort, 'POST', 'keys', { body: key, actor: ATTACK })).status).toBe(201)
    await edge.publish('<script>window.attacked=1</script>')
    await inEveryView(page, async (title) => {
      const elements = await page.locator('img, b, #console script').count()
      expect([title, elements, await page.evaluate('window.attacked')]).toEqual([title, 0, undefined])
    })
    await page.getByText('<b>bold</b>').first().waitFor()
  })

  test('and marks that turn the direction of text are in sight, and turn nothing', async () => {
    const edge = await running({ bundle: bundle(1, policy('a', { rules: [bucketRule('r', ['header:x-k'], 1, 1)] })), env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort, {}, 'ada \u202e nirac')
    const reason = 'refund \u202e001 ton'
    await page.getByRole('link', { name: 'Events' }).click()
    await page.getByText('Live').waitFor()
    for (const what of [{ policy: 'a', rule: 'r', all: true, multiply: 2 }, { shadow_all: true }]) {
      expect((await askAdmin(edge.adminPort, 'POST', 'overrides', { body: { ...what, until: '1h', reason } })).status).toBe(201)
    }
    for (const view of ['Events', 'Overrides', 'Overview']) {
      await page.getByRole('link', { name: view, exact: true }).click()
      await page.getByText('refund \\u{202e}001 ton').first().waitFor()
      expect(await page.locator('body').innerText()).not.toContain('\u202e')
    }
  })
})
