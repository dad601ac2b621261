import { expect, test } from 'vitest'
import { readText } from '../docs/markdown.ts'
import { ADMIN_ENV, ADMIN_TOKEN } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, newPage } from '../support/console/browser.ts'
import { describeWith } from '../support/describe-with.ts'
import { substituted } from '../support/gateways/gateway.ts'
import { NGINX, runningNginx } from '../support/gateways/nginx.ts'
import { running, scratchDirectory } from '../support/service/running.ts'
import { selfSigned } from '../support/service/self-signed.ts'

const [, DOCUMENTED] = /```nginx\n(.*?)```/s.exec(readText('docs/console.md'))!
const BUNDLE = bundle(1, policy('api', { rules: [bucketRule('per-key', ['header:x-k'], 3, 0.001)] }))

describeWith(NGINX.missing, 'nginx with the configuration of docs/console.md', () => {
  describeInBrowser('in front of the page', () => {
    test('passes logins, changes and events on, and the cookie is Secure', async () => {
      const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
      const { path, keyPath } = await selfSigned(await scratchDirectory())
      const port = await runningNginx((free) =>
        substituted(DOCUMENTED!, {
          'listen 443 ssl;': `listen 127.0.0.1:${free} ssl; ssl_certificate ${path}; ssl_certificate_key ${keyPath};`,
          '127.0.0.1:9090': `127.0.0.1:${edge.adminPort}`,
        }),
      )
      const page = await newPage({ ignoreHTTPSErrors: true })
      await page.goto(`https://127.0.0.1:${port}/#/explain`)
      await page.locator('input[type=password]').fill(ADMIN_TOKEN)
      await page.getByRole('button', { name: 'Log in' }).click()
      await page.getByLabel('URI').fill('/x')
      await page.getByRole('button', { name: 'Explain' }).click()
      await page.getByRole('region', { name: 'Verdict' }).getByText('Allowed').waitFor()
      expect(await page.context().cookies()).toMatchObject([{ name: 'edge_admin', secure: true, httpOnly: true, sameSite: 'Strict' }])
      await page.getByRole('link', { name: 'Events', exact: true }).click()
      await edge.decideTimes(4, { uri: '/x', fields: [['X-K', 'a']] })
      await page.getByText('token_bucket_exceeded').first().waitFor()
    })
  })
})
