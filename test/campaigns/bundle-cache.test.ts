import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { BundleServer } from '../support/bundles/bundle-server.ts'
import { fetching, known, knownYaml, limit, logged, urlEnv } from '../support/bundles/bundle-url.ts'
import { newSigner } from '../support/bundles/signing.ts'
import type { Edge } from '../support/service/edge.ts'
import { ask } from '../support/service/http.ts'
import { metric } from '../support/service/metrics.ts'
import { scratchDirectory, serving } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { original } from '../support/service/wire.ts'
import { freezingDisk, smallDisk } from '../support/state/faulty-disk.ts'
import { until } from '../support/until.ts'

const NOBODY = 'http://127.0.0.1:9/bundle'
const WRITTEN = 'edge_bundle_cache_writes_total{result="written"}'
const FAILED = 'edge_bundle_cache_writes_total{result="failed"}'

// The first of all: it waits for seconds, beside the others.
test.concurrent('a cache on a disk that hangs holds up neither bundles nor the end; it is said once', async (t) => {
  const directory = await scratchDirectory(t)
  const disk = freezingDisk(directory, t)
  const server = await BundleServer.start(t)
  server.publish(known(1))
  const env = { EDGE_CONFIG_CACHE_FILE: join(directory, 'cache') }
  const cli = await serving(urlEnv(server.url, env), [], t)
  await until(async () => (await metric(cli.port, WRITTEN)) === 1)
  // A disk that a busy machine made slow is said, too.
  const said = cli.logged('bundle_not_cached').length
  const failed = await metric(cli.port, FAILED)
  disk.freeze()
  t.onTestFinished(() => disk.thaw())
  for (const version of [2, 3]) {
    server.publish(known(version))
    await until(() => cli.logged('bundle_applied').length === version)
  }
  await until(() => cli.logged('bundle_not_cached').length > said)
  expect(cli.logged('bundle_not_cached').slice(said)).toMatchObject([{ reason: 'the disk did not respond within 2 s' }])
  expect(await metric(cli.port, FAILED)).toBe(failed + 1)
  const again = cli.logged('bundle_cached_again').length
  disk.thaw()
  await until(() => cli.logged('bundle_cached_again').length > again)
  await until(async () => (await readFile(env.EDGE_CONFIG_CACHE_FILE, 'utf8')).endsWith(known(3)))

  disk.freeze()
  server.publish(known(4))
  await until(() => cli.logged('bundle_not_cached').length > said + 1)
  cli.process.kill('SIGTERM')
  await until(() => cli.logged('stopped').length === 1)
  // Linux ends no process while a thread of it waits for the disk.
  disk.thaw()
  await cli.exited
  expect(cli.process.signalCode).toBe('SIGKILL')
})

describe.concurrent('with a cache', () => {
  test.for([
    ['JSON', known, 'application/json'],
    ['YAML', knownYaml, 'application/yaml'],
  ] as const)('an instance starts from the last good bundle without its source, in %s', async ([_what, write, type], t) => {
    const path = await cachePath(t)
    const { edge, server } = await cached(t, path, write(3), type)
    server.publish(write(4), { type })
    await written(edge, 2)
    server.stop()

    const again = await fetching(NOBODY, { EDGE_CONFIG_CACHE_FILE: path }, t)
    expect(await untilLogged(again, 'bundle_applied')).toContainEqual(
      expect.objectContaining({ event: 'bundle_applied', path, version: '4' }),
    )
    expect(await untilLogged(again, 'bundle_unreadable')).toContainEqual(
      expect.objectContaining({ event: 'bundle_unreadable', url: NOBODY, msg: expect.stringContaining('version 4 stays active') }),
    )
    expect((await again.get('/readyz')).status).toBe(200)
    expect(await limit(again)).toBe('44')
  })

  test('the file is for its owner alone, and whole: nothing is left beside it; and it is written once', async (t) => {
    const path = await cachePath(t)
    const { edge, server } = await cached(t, path, known(1))
    await server.polled(3)
    expect(await edge.metric(WRITTEN)).toBe(1)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await readdir(join(path, '..'))).toEqual(['cache'])
  })

  test('what a process left that was killed while it wrote is cleared away', async (t) => {
    const path = await cachePath(t)
    await writeFile(`${path}.new`, 'half')
    await cached(t, path, known(1))
    expect(await readdir(join(path, '..'))).toEqual(['cache'])
  })

  test.for([
    ['removed', (path: string) => rm(path)],
    ['emptied', (path: string) => writeFile(path, '')],
    ['damaged', async (path: string) => writeFile(path, flipped(await readFile(path), 100))],
  ] as const)('that is %s is written again with the next good poll', async ([_what, harm], t) => {
    const path = await cachePath(t)
    const server = await BundleServer.start(t)
    server.publish(known(1), { etag: '"one"' })
    const edge = await fetching(server.url, { EDGE_CONFIG_CACHE_FILE: path }, t)
    await written(edge, 1)
    const before = await readFile(path)
    await harm(path)
    await written(edge, 2)
    expect(await readFile(path)).toEqual(before)
  })

  test('that has a whole bundle of somebody else is left as it is', async (t) => {
    const [path, otherPath] = [await cachePath(t), await cachePath(t)]
    await cached(t, otherPath, known(3))
    const { edge, server } = await cached(t, path, known(2))
    await replaceFile(path, await readFile(otherPath))
    await server.polled(3)
    expect(await edge.metric(WRITTEN)).toBe(1)
    expect(await readFile(path)).toEqual(await readFile(otherPath))
  })

  test('a bundle that was refused does not get into it', async (t) => {
    const path = await cachePath(t)
    const { edge, server } = await cached(t, path, known(2))
    const before = await readFile(path)
    server.publish(known(1))
    await logged(edge, 'bundle_refused')
    await server.polled(2)
    expect(await readFile(path)).toEqual(before)
    expect(await edge.metric(WRITTEN)).toBe(1)
  })

  test('the source has the same bundle: no news, and nothing is written', async (t) => {
    const path = await cachePath(t)
    await stopped(cached(t, path, known(2)))
    const server = await BundleServer.start(t)
    server.publish(known(2))
    const edge = await fetching(server.url, { EDGE_CONFIG_CACHE_FILE: path }, t)
    expect(events(edge)).toEqual(['bundle_applied', 'bundle_unchanged'])
    expect(await edge.metric(WRITTEN)).toBe(0)
  })

  test('the source has a newer bundle: it is taken', async (t) => {
    const path = await cachePath(t)
    await stopped(cached(t, path, known(2)))
    const server = await BundleServer.start(t)
    server.publish(known(3))
    const edge = await fetching(server.url, { EDGE_CONFIG_CACHE_FILE: path }, t)
    expect(await limit(edge)).toBe('33')
    await written(edge, 1)
  })

  test('the source has an older bundle, or another of the same version: the cached one stays', async (t) => {
    const path = await cachePath(t)
    await stopped(cached(t, path, known(2)))
    const server = await BundleServer.start(t)
    server.publish(known(1))
    const edge = await fetching(server.url, { EDGE_CONFIG_CACHE_FILE: path }, t)
    const expected = 'bundle_version: expected a version above the active one (2), got'
    expect(await logged(edge, 'bundle_refused')).toMatchObject({
      url: server.url,
      problems: [expect.stringContaining(`${expected} 1.`)],
      active_version: '2',
    })
    const seen = edge.log.length
    server.publish(`${known(2)}\n`)
    expect(await logged(edge, 'bundle_refused', seen)).toMatchObject({ problems: [expect.stringContaining(`${expected} 2.`)] })
    expect(await limit(edge)).toBe('22')
  })
})

/** What can become of the file, and what is said of it. */
const DAMAGES: Readonly<Record<string, readonly [damage: (file: Buffer) => Buffer | string, said: RegExp]>> = {
  emptied: [() => '', /^it is damaged, or not a cached bundle$/],
  'cut in its first line': [(file) => file.subarray(0, 30), /^it is damaged, or not a cached bundle$/],
  'cut in the bundle': [(file) => file.subarray(0, -40), /^it is damaged: its checksum is wrong$/],
  'with a bit flipped': [(file) => flipped(file, file.length - 5), /^it is damaged: its checksum is wrong$/],
  'with something at its end': [(file) => Buffer.concat([file, Buffer.from('\n')]), /^it is damaged: its checksum is wrong$/],
  'with another first line': [() => 'edge-bundle-cache-1 null\n{}', /^it is damaged, or not a cached bundle$/],
  'with a signature that is no text': [() => 'edge-bundle-cache-1 {"signature":5}\n{}', /^it is damaged, or not a cached bundle$/],
  'replaced by a bundle': [() => known(9), /^it is damaged, or not a cached bundle$/],
}

describe.concurrent('a cache that is damaged', () => {
  test.for(Object.entries(DAMAGES))('%s: it is said and ignored, and the next good bundle mends it', async ([_what, [damage, said]], t) => {
    const path = await cachePath(t)
    await stopped(cached(t, path, knownYaml(2), 'application/yaml'))
    await writeFile(path, damage(await readFile(path)))
    const server = await BundleServer.start(t)
    server.publish(known(1))
    const edge = await fetching(server.url, { EDGE_CONFIG_CACHE_FILE: path }, t)
    expect(await untilLogged(edge, 'bundle_unreadable')).toContainEqual(
      expect.objectContaining({ event: 'bundle_unreadable', path, reason: expect.stringMatching(said) }),
    )
    expect(await limit(edge)).toBe('11')
    await written(edge, 1)
    const again = await fetching(NOBODY, { EDGE_CONFIG_CACHE_FILE: path }, t)
    expect(await limit(again)).toBe('11')
  })

  test('and no source: alive and not ready', async (t) => {
    const path = await cachePath(t)
    await writeFile(path, 'nonsense')
    const edge = await fetching(NOBODY, { EDGE_CONFIG_CACHE_FILE: path }, t)
    expect((await edge.get('/livez')).status).toBe(200)
    expect((await edge.get('/readyz')).status).toBe(503)
  })

  test('that is a directory is said, and so is that it cannot be written', async (t) => {
    const path = await cachePath(t)
    await mkdir(path)
    const { edge } = await cached(t, path, known(1), 'application/json', false)
    expect(await untilLogged(edge, 'bundle_unreadable')).toContainEqual(
      expect.objectContaining({ event: 'bundle_unreadable', path, reason: 'it is not a regular file' }),
    )
    await logged(edge, 'bundle_not_cached')
    expect(await limit(edge)).toBe('11')
  })
})

describe.concurrent('a cache that cannot be written', () => {
  test('in a directory that is not there: said once, counted, tried again with each good poll until it works', async (t) => {
    const directory = join(await scratchDirectory(t), 'later')
    const path = join(directory, 'cache')
    const { edge } = await cached(t, path, known(1), 'application/json', false)
    expect(await logged(edge, 'bundle_not_cached')).toMatchObject({ level: 50, path, reason: expect.stringContaining('ENOENT') })
    await until(async () => (await edge.metric(FAILED)) >= 3)
    expect(await untilLogged(edge, 'bundle_not_cached')).toHaveLength(1)
    expect(await limit(edge)).toBe('11')
    await mkdir(directory)
    await logged(edge, 'bundle_cached_again')
    const again = await fetching(NOBODY, { EDGE_CONFIG_CACHE_FILE: path }, t)
    expect(await limit(again)).toBe('11')
  })
})

test.concurrent('a cache on a disk that turned read-only keeps its bundle, and the service the newer one', async (t) => {
  const directory = await scratchDirectory(t)
  const disk = smallDisk(directory, t)
  const path = join(directory, 'cache')
  const { edge, server } = await cached(t, path, known(1))
  disk.makeReadOnly()
  server.publish(known(2))
  expect(await logged(edge, 'bundle_not_cached')).toMatchObject({ reason: expect.stringContaining('EROFS') })
  expect(await limit(edge)).toBe('22')
  const again = await fetching(NOBODY, { EDGE_CONFIG_CACHE_FILE: path }, t)
  expect(await limit(again)).toBe('11')
})

describe.concurrent('a cache and signatures', () => {
  test('it is verified like any other bundle, by the signature that came with it', async (t) => {
    const [path, signer] = [await cachePath(t), newSigner()]
    const server = await BundleServer.start(t)
    server.publish(known(1), { signature: signer.sign(known(1)) })
    const env = { EDGE_CONFIG_CACHE_FILE: path, EDGE_CONFIG_PUBLIC_KEY: signer.publicText }
    const edge = await fetching(server.url, env, t)
    await written(edge, 1)
    expect(await limit(await fetching(NOBODY, env, t))).toBe('11')

    const other = await fetching(NOBODY, { ...env, EDGE_CONFIG_PUBLIC_KEY: newSigner().publicText }, t)
    expect(await logged(other, 'bundle_refused')).toMatchObject({
      path,
      problems: [expect.stringContaining('its signature does not match')],
    })
    expect((await other.get('/readyz')).status).toBe(503)
  })

  test('signing begins: the signature of the same bytes gets into it, and stays when the source forgets it', async (t) => {
    const [path, signer] = [await cachePath(t), newSigner()]
    const { edge, server } = await cached(t, path, known(1))
    server.publish(known(1), { signature: signer.sign(known(1)) })
    await written(edge, 2)
    server.publish(known(1))
    await server.polled(3)
    expect(await edge.metric(WRITTEN)).toBe(2)
    const withKey = await fetching(NOBODY, { EDGE_CONFIG_CACHE_FILE: path, EDGE_CONFIG_PUBLIC_KEY: signer.publicText }, t)
    expect(await limit(withKey)).toBe('11')
  })

  test('a signature that is wrong does not take the place of a good one', async (t) => {
    const [path, signer] = [await cachePath(t), newSigner()]
    const server = await BundleServer.start(t)
    server.publish(known(1), { signature: signer.sign(known(1)) })
    const env = { EDGE_CONFIG_CACHE_FILE: path, EDGE_CONFIG_PUBLIC_KEY: signer.publicText }
    const edge = await fetching(server.url, env, t)
    await written(edge, 1)
    server.publish(known(1), { signature: newSigner().sign(known(1)) })
    await server.polled(3)
    expect(await edge.metric(WRITTEN)).toBe(1)
    expect(await limit(await fetching(NOBODY, env, t))).toBe('11')
  })

  test('one that was written without a signature is not trusted once there is a key', async (t) => {
    const path = await cachePath(t)
    await stopped(cached(t, path, known(1)))
    const edge = await fetching(NOBODY, { EDGE_CONFIG_CACHE_FILE: path, EDGE_CONFIG_PUBLIC_KEY: newSigner().publicText }, t)
    expect(await logged(edge, 'bundle_refused')).toMatchObject({ path, problems: [expect.stringContaining('it is not signed')] })
  })

  test('a bundle that was put into it by hand, checksum and all, is refused', async (t) => {
    const [path, signer] = [await cachePath(t), newSigner()]
    await stopped(cached(t, path, known(9)))
    const forged = (await readFile(path, 'latin1')).replace('{', `{"signature":"${signer.sign(known(1))}",`)
    await writeFile(path, forged, 'latin1')
    const edge = await fetching(NOBODY, { EDGE_CONFIG_CACHE_FILE: path, EDGE_CONFIG_PUBLIC_KEY: signer.publicText }, t)
    expect(await logged(edge, 'bundle_refused')).toMatchObject({ problems: [expect.stringContaining('does not match')] })
  })
})

test.concurrent('edge serve starts from its cache while the source hangs', async (t) => {
  const path = await cachePath(t)
  await stopped(cached(t, path, known(5)))
  const server = await BundleServer.start(t)
  server.respond = () => {} // never
  const cli = await serving(urlEnv(server.url, { EDGE_CONFIG_CACHE_FILE: path }), [], t)
  await until(async () => (await ask(cli.port, 'GET', '/readyz')).body.includes('"policy_version":"5"'))
})

test.concurrent('a bundle from the cache opens the port before its source has answered, and the greeting says so', async (t) => {
  const path = await cachePath(t)
  await stopped(cached(t, path, known(5)))
  const server = await BundleServer.start(t)
  server.respond = () => {} // never
  const cli = await serving(urlEnv(server.url, { EDGE_CONFIG_CACHE_FILE: path }), [], t)
  expect((await ask(cli.port, 'POST', '/v1/decision', original('/'))).status).toBe(200)
  expect(cli.stdout).toContain(`version 5 from the cache, ${path}\n          ${server.url}: it has not been read yet\n`)
})

interface Cached {
  readonly edge: Edge
  readonly server: BundleServer
}

/** An instance that has this bundle from a source, and in its cache. */
async function cached(t: TestContext, path: string, content: string, type = 'application/json', isWritable = true): Promise<Cached> {
  const server = await BundleServer.start(t)
  server.publish(content, { type })
  const edge = await fetching(server.url, { EDGE_CONFIG_CACHE_FILE: path }, t)
  if (isWritable) await written(edge, 1)
  return { edge, server }
}

async function stopped(starting: Promise<Cached>): Promise<void> {
  const { server } = await starting
  server.stop()
}

async function written(edge: Edge, times: number): Promise<void> {
  await until(async () => (await edge.metric(WRITTEN)) === times)
}

async function cachePath(t: TestContext): Promise<string> {
  return join(await scratchDirectory(t), 'cache')
}

function events(edge: Edge): unknown[] {
  return edge.log.map(({ event }) => event).filter((event) => String(event).startsWith('bundle_'))
}

function flipped(file: Buffer, at: number): Buffer {
  const copy = Buffer.from(file)
  copy[at]! ^= 1
  return copy
}
