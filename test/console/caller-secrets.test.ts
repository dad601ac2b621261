import { expect, test } from 'vitest'
import { newKeyText } from '../../src/callers/keys/issued-key.ts'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { inEveryView } from '../support/console/every-view.ts'
import { keptAndShown } from '../support/console/kept.ts'
import { running } from '../support/service/running.ts'

/** So few tokens a second that none comes back while the test runs. */
const HARDLY_ANY = 0.0001
const RULES = [bucketRule('team', ['caller:team'], 2, HARDLY_ANY), bucketRule('token', ['bearer'], 2, HARDLY_ANY)]
const BUNDLE = { ...bundle(1, policy('api', { rules: RULES })), callers: { keys: { from: ['bearer', 'header:x-api-key'] } } }

describeInBrowser('keys that callers send', () => {
  test('are in no view, whatever came of them, and in nothing that the browser keeps', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const issue = async (team: string) =>
      (await askAdmin(edge.adminPort, 'POST', 'keys', { body: { labels: { team }, reason: 'a test' } })).json as { id: string; key: string }
    const [known, revoked] = [await issue('search'), await issue('ads')]
    await askAdmin(edge.adminPort, 'DELETE', `keys/${revoked.id}?reason=over`)
    const page = await loggedIn(edge.adminPort)
    const sent = [known.key, revoked.key, newKeyText(), 'edge_malformed-key-of-somebody']
    for (const key of sent) {
      const fields = [['Authorization', `Bearer ${key}`]] as const
      expect(await edge.decideTimes(4, { fields })).toEqual([200, 200, 429, 429])
      await edge.decideTimes(4, { fields: [['X-Api-Key', key]] })
    }
    let views = 0
    await inEveryView(page, async () => {
      views++
      const said = await keptAndShown(page)
      for (const key of sent) expect(said).not.toContain(key.slice(5))
    })
    expect(views).toBeGreaterThan(5)
  })
})
