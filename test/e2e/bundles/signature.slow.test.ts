import { rm } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { fetching, known, limit, logged, reloads } from '../../support/bundles/bundle-url.ts'
import { newSigner } from '../../support/bundles/signing.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { type Owner, running } from '../../support/service/running.ts'

const signer = newSigner()
const stranger = newSigner()
const env = { EDGE_CONFIG_PUBLIC_KEY: signer.publicText }

const BAD: Readonly<Record<string, readonly [signature: string | undefined, said: RegExp]>> = {
  'no signature': [undefined, /^it is not signed, and EDGE_CONFIG_PUBLIC_KEY is set$/],
  'an empty signature': ['', /^it is not signed/],
  'the signature of another bundle': [signer.sign(known(1)), /^its signature does not match/],
  'the signature of a stranger': [stranger.sign(known(2)), /^its signature does not match/],
  'two signatures': [[signer.sign(known(1)), signer.sign(known(2))].join(', '), /^it has 2 signatures, expected one/],
  'garbage for a signature': ['#@!', /^its signature is not base64 of 64 bytes/],
}

describe.concurrent('a bundle from a URL with', () => {
  test.for(Object.entries(BAD))('%s is refused, and taken once it is signed', async ([_what, [signature, said]], t) => {
    const source = await BundleServer.start(t)
    source.publish(known(1), { signature: signer.sign(known(1)) })
    const edge = await fetching(source.url, env, t)
    expect(await limit(edge)).toBe('11')
    source.publish(known(2), { ...(signature === undefined ? {} : { signature }), etag: '"two"' })
    expect(await logged(edge, 'bundle_refused')).toMatchObject({
      url: source.url,
      problems: [expect.stringMatching(said)],
      active_version: '1',
    })
    expect(await limit(edge)).toBe('11')
    // The same ETag: a store may keep it when only the header changes.
    source.publish(known(2), { signature: signer.sign(known(2)), etag: '"two"' })
    await logged(edge, 'bundle_applied', refusedAt(edge))
    expect(await limit(edge)).toBe('22')
  })

  test('a signature that has white space in it is taken', async (t) => {
    const source = await BundleServer.start(t)
    const signature = signer.sign(known(1))
    source.publish(known(1), { signature: `${signature.slice(0, 64)} ${signature.slice(64)}` })
    expect(await limit(await fetching(source.url, env, t))).toBe('11')
  })

  test('no need for a signature is taken with any', async (t) => {
    const source = await BundleServer.start(t)
    source.publish(known(1), { signature: 'whatever' })
    expect(await limit(await fetching(source.url, {}, t))).toBe('11')
  })
})

describe.concurrent('a bundle file with', () => {
  test.for(Object.entries(BAD))('%s beside it is refused, and taken once its signature is right', async ([_what, [signature, said]], t) => {
    const edge = await signedFile(t)
    if (signature === undefined) await rm(`${edge.bundlePath}.sig`)
    else await replaceFile(`${edge.bundlePath}.sig`, signature)
    await replaceFile(edge.bundlePath, known(2))
    const { problems } = await logged(edge, 'bundle_refused')
    expect(problems).toEqual([expect.stringMatching(said)])
    expect(await limit(edge)).toBe('11')
    await replaceFile(`${edge.bundlePath}.sig`, `${signer.sign(known(2))}\n`)
    await logged(edge, 'bundle_applied', refusedAt(edge))
    expect(await limit(edge)).toBe('22')
    expect(await reloads(edge, 'refused')).toBe(1)
  })

  test('a signature that vanishes, or is replaced by one for nothing, changes nothing of the active one', async (t) => {
    const edge = await signedFile(t)
    const path = `${edge.bundlePath}.sig`
    for (const change of [() => rm(path), () => replaceFile(path, 'nonsense')]) {
      await change()
      const seen = edge.log.length
      await edge.service.reload()
      expect(await logged(edge, 'bundle_unchanged', seen)).toMatchObject({ path: edge.bundlePath })
      expect(await limit(edge)).toBe('11')
    }
  })

  test('a signature that cannot be read: the log names that file', async (t) => {
    const edge = await signedFile(t)
    await replaceFile(`${edge.bundlePath}.sig`, 'x'.repeat(5000))
    expect(await logged(edge, 'bundle_unreadable')).toMatchObject({
      path: `${edge.bundlePath}.sig`,
      reason: 'it has 5000 bytes, more than 4096',
    })
  })
})

/** A service with version 1 in a file, signed and taken. */
async function signedFile(owner: Owner): Promise<Edge> {
  const edge = await running({ bundle: known(1), signature: signer.sign(known(1)), env, clock: new ManualClock() }, owner)
  await logged(edge, 'bundle_applied')
  return edge
}

function refusedAt(edge: Edge): number {
  return edge.log.findIndex(({ event }) => event === 'bundle_refused')
}
