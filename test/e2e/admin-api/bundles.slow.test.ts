import { type IncomingMessage, request } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

/** Asks and does not read the response; the connection stays open until it is destroyed. */
function unread(port: number, path: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
    const req = request({ port, host: '127.0.0.1', path: `/admin/v1/${path}`, agent: false, headers })
    onTestFinished(() => void req.destroy())
    req.on('response', resolve).on('error', reject).end()
  })
}

test('texts that nobody reads take a bounded amount of memory, until their readers are gone', async () => {
  // Each of these characters takes two in the file, and four in the response: more than any socket takes.
  const edge = await running({ bundle: { ...bundle(1), metadata: { noise: '\\'.repeat(7_500_000) } }, env: ADMIN_ENV })
  const slow = [await unread(edge.adminPort, 'bundles/1'), await unread(edge.adminPort, 'bundles/1')]
  for (const { statusCode } of slow) expect(statusCode).toBe(200)
  expect(await askAdmin(edge.adminPort, 'GET', 'bundles/1')).toMatchObject({
    status: 503,
    json: { error: { code: 'too_many_readers', message: 'too many clients are slow to read the texts of bundles: ask again later' } },
  })
  for (const response of slow) response.destroy()
  await until(async () => (await askAdmin(edge.adminPort, 'GET', 'bundles/1')).status === 200)
})

test('nor do texts that were asked for at the same time', async () => {
  const noisy = (version: number) => ({ ...bundle(version), metadata: { noise: '\\'.repeat(7_500_000) } })
  const edge = await running({ bundle: noisy(1), env: ADMIN_ENV })
  for (const version of [2, 3, 4]) await edge.publish(noisy(version))
  const { json } = await askAdmin(edge.adminPort, 'GET', 'bundles')
  const versions: string[] = json.bundles
    .filter(({ has_text: hasText }: { has_text: boolean }) => hasText)
    .map(({ version }: { version: string }) => version)
  const slow = await Promise.all(
    versions.flatMap((version) =>
      [`bundles/${version}`, `bundles/${version}?credentials=clear`].map((path) => unread(edge.adminPort, path)),
    ),
  )
  expect(slow.length).toBeGreaterThan(3)
  expect(slow.filter(({ statusCode }) => statusCode === 200).length).toBeLessThanOrEqual(3)
})
