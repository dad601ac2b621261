import { writeFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { fetching, known, limit, logged } from '../../support/bundles/bundle-url.ts'
import { newSigner } from '../../support/bundles/signing.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const signer = newSigner()
const stranger = newSigner()
const env = { EDGE_CONFIG_PUBLIC_KEY: signer.publicText }

describe.concurrent('a bundle from a URL with', () => {
  test('the signature of one of two keys is taken, so that a fleet can change from one to the other', async (t) => {
    const source = await BundleServer.start(t)
    source.publish(known(1), { signature: signer.sign(known(1)) })
    const edge = await fetching(source.url, { EDGE_CONFIG_PUBLIC_KEY: `${signer.publicText},${stranger.publicText}` }, t)
    source.publish(known(2), { signature: stranger.sign(known(2)) })
    await until(async () => (await limit(edge)) === '22')
  })

  test('two headers for a signature is refused, and it is said that there are two', async (t) => {
    const source = await BundleServer.start(t)
    source.respond = (_req, res) => {
      const signature = signer.sign(known(1))
      res.writeHead(200, { 'Content-Length': known(1).length, 'X-Edge-Signature': [signature, signature] }).end(known(1))
    }
    const { problems } = await logged(await fetching(source.url, env, t), 'bundle_refused')
    expect(problems).toEqual(['it has 2 signatures, expected one: is X-Edge-Signature sent more than once?'])
  })
})

describe.concurrent('a bundle file with', () => {
  test('no signature at the start leaves the service not ready until there is one', async (t) => {
    const edge = await running({ bundle: known(1), env, clock: new ManualClock() }, t)
    expect((await edge.get('/readyz')).status).toBe(503)
    expect(await logged(edge, 'bundle_refused')).toMatchObject({ path: edge.bundlePath, active_version: null })
    await writeFile(`${edge.bundlePath}.sig`, signer.sign(known(1)))
    await logged(edge, 'bundle_applied')
    expect(await limit(edge)).toBe('11')
  })
})

describe.concurrent('a restart with another key', () => {
  test('refuses what the old key signed, and takes what the new one did', async (t) => {
    const source = await BundleServer.start(t)
    source.publish(known(1), { signature: signer.sign(known(1)) })
    expect(await limit(await fetching(source.url, env, t))).toBe('11')
    const rotated = await fetching(source.url, { EDGE_CONFIG_PUBLIC_KEY: stranger.publicText }, t)
    expect(await logged(rotated, 'bundle_refused')).toMatchObject({ problems: [expect.stringContaining('does not match')] })
    source.publish(known(1), { signature: stranger.sign(known(1)) })
    await logged(rotated, 'bundle_applied')
    expect(await limit(rotated)).toBe('11')
  })
})
