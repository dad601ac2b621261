import { chown, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { request } from 'node:http'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { Container, type ContainerOptions, readableFolder } from '../support/packaging/container.ts'
import { decisions, reloads, uploads } from '../support/packaging/container-load.ts'
import { describeWithContainers } from '../support/packaging/container-tools.ts'
import { succeed } from '../support/packaging/npm.ts'
import { OciImage } from '../support/packaging/oci-image.ts'
import { ROOT } from '../support/packaging/source-copy.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { ask } from '../support/service/http.ts'
import { scratchDirectory } from '../support/service/running.ts'
import { serverPort } from '../support/service/server-port.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { original } from '../support/service/wire.ts'
import { until } from '../support/until.ts'

const MAX_PULLED_BYTES = 65e6
/** The architecture of this machine, whose image can be run. */
const NATIVE = process.arch === 'arm64' ? 'arm64' : 'amd64'
const MIB = 1024 ** 2
/** A build downloads, compresses and hashes some hundred megabytes. */
const BUILD = { timeout: 1_800_000 }

describeWithContainers(['buildah', 'mmdebstrap', 'runc', 'qemu-aarch64-static'], 'the image that release/image.sh makes', () => {
  const suite = thisSuite()
  let scratch: string
  let digest: string
  let image: OciImage
  let rootfs: string

  beforeAll(async () => {
    scratch = await scratchDirectory(suite)
    digest = await succeed(scratch, join(ROOT, 'release/image.sh'), join(scratch, 'image'))
    image = await OciImage.open(join(scratch, 'image'), NATIVE)
    rootfs = join(scratch, NATIVE)
    await image.unpack(rootfs)
  }, BUILD.timeout)

  /** On ports of its own, with a bundle in a folder that is mounted. */
  async function started(options: ContainerOptions = {}, version = 1, burst = 2): Promise<{ container: Container; folder: string }> {
    const folder = await readableFolder()
    await writeFile(join(folder, 'bundle.json'), bundleText(version, burst))
    const env = {
      EDGE_HOST: '127.0.0.1',
      EDGE_PORT: String(await serverPort()),
      EDGE_ADMIN_PORT: String(await serverPort()),
      EDGE_WORKERS: '2',
      EDGE_CONFIG_FILE: '/etc/edge/bundle.json',
      ...options.env,
    }
    const container = await Container.start(rootfs, image.config, { ...options, env, mounts: { '/etc/edge': folder, ...options.mounts } })
    return { container, folder }
  }

  test('is an image to others, who find the one for this machine', async () => {
    const folder = await scratchDirectory()
    const buildah = ['buildah', '--storage-driver', 'vfs', '--root', join(folder, 'storage'), '--runroot', join(folder, 'run')] as const
    // By a relative path, because buildah makes a name of the path, which must have no capitals.
    const id = (await succeed(scratch, ...buildah, 'pull', '--quiet', 'oci:image')).trim()
    const { OCIv1 } = JSON.parse(await succeed(folder, ...buildah, 'inspect', '--type', 'image', id)) as { OCIv1: object }
    expect(OCIv1).toMatchObject({ architecture: NATIVE, config: { User: '65532:65532', Entrypoint: image.config.Entrypoint } })
  })

  test('is what was printed, and small, for both architectures', async () => {
    const index = JSON.parse(await readFile(join(scratch, 'image/index.json'), 'utf8')) as { manifests: { digest: string }[] }
    expect(index.manifests.map((each) => `${each.digest}\n`)).toEqual([digest])
    for (const architecture of ['amd64', 'arm64'])
      expect((await OciImage.open(join(scratch, 'image'), architecture)).bytes).toBeLessThan(MAX_PULLED_BYTES)
  })

  test('says what it contains: the packages of Debian, and all licences', async () => {
    const names = await readdir(join(rootfs, 'var/lib/dpkg/status.d'))
    expect(names).toEqual(['base-files', 'gcc-12-base', 'libc6', 'libgcc-s1', 'libstdc++6'])
    expect(await readFile(join(rootfs, 'var/lib/dpkg/status.d/libc6'), 'utf8')).toMatch(/^Package: libc6\n(?:.*\n)*Version: /)
    expect(await readFile(join(rootfs, 'etc/os-release'), 'utf8')).toMatch(/^VERSION_CODENAME=bookworm$/m)
    for (const name of [...names, 'nodejs']) expect((await stat(join(rootfs, 'usr/share/doc', name, 'copyright'))).size).toBeGreaterThan(0)
    expect(await readdir(join(rootfs, 'usr/lib/edge'))).toEqual(expect.arrayContaining(['LICENSE', 'THIRD-PARTY-NOTICES']))
    for (const shell of ['bin/sh', 'usr/bin/sh', 'usr/bin/env']) await expect(stat(join(rootfs, shell))).rejects.toThrow('ENOENT')
  })

  test('runs as process 1, as nobody in particular, who can write nothing but what is given to it', async () => {
    const { container } = await started()
    await container.listening()
    const status = await readFile(`/proc/${await container.pid()}/status`, 'utf8')
    expect(status).toMatch(/^Uid:\t65532\t65532\t65532\t65532$/m)
    expect(status).toMatch(/^CapEff:\t0{16}$/m)
    expect(status).toMatch(/^NSpid:\t.*\t1$/m)
    const writes = `for (const path of ['/usr/lib/edge/x', '/var/lib/edge/x', '/tmp/x'])
      try { require('fs').writeFileSync(path, ''); console.log('written') } catch ({ code }) { console.log(code) }`
    expect((await container.exec('/usr/local/bin/node', '-e', writes)).stdout).toBe('EROFS\nEROFS\nwritten\n')
    expect((await stat(join(rootfs, 'var/lib/edge'))).uid).toBe(65532)
  })

  test('is healthy when it is ready, and decides', async () => {
    const { container } = await started()
    const port = await container.listening()
    const [, ...check] = image.config.Healthcheck.Test as [string, ...string[]]
    expect(await container.exec(...check)).toEqual({ status: 0, stdout: 'ready, bundle version 1\n', stderr: '' })
    const answers = await Promise.all([1, 2, 3].map(() => ask(port, 'POST', '/v1/decision', original('/'))))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 200, 429])
  })

  test('serves without a folder for temporary files', async () => {
    const { container } = await started({ hasTmp: false })
    await container.listening()
    expect(await container.exec('edge', 'health')).toMatchObject({ status: 0 })
  })

  test('keeps what it counted on a volume, from one container to the next', async () => {
    const state = await readableFolder()
    await chown(state, 65532, 65532)
    const statuses: number[] = []
    for (let round = 0; round < 2; round++) {
      const { container } = await started({ env: { EDGE_STATE_FILE: '/var/lib/edge/counters' }, volumes: { '/var/lib/edge': state } })
      const port = await container.listening()
      for (let i = 0; i < 2; i++) statuses.push((await ask(port, 'POST', '/v1/decision', original('/'))).status)
      await container.signal('TERM')
      expect(await container.exited).toBe(0)
    }
    expect(statuses).toEqual([200, 200, 429, 429])
  })

  test('is not healthy without a bundle', async () => {
    const { container } = await started({ env: { EDGE_CONFIG_FILE: '/etc/edge/none.json' } })
    await container.listening()
    expect(await container.exec('edge', 'health')).toMatchObject({ status: 1, stderr: expect.stringContaining('no bundle is active yet') })
  })

  test('reloads a bundle from the folder that is mounted', async () => {
    const { container, folder } = await started()
    await container.listening()
    await replaceFile(join(folder, 'bundle.json'), bundleText(2))
    await until(async () => (await container.exec('edge', 'health')).stdout === 'ready, bundle version 2\n')
    expect(container.stdout.match(/listens/g)).toHaveLength(1)
  })

  test('proxies a stream as it comes, and on SIGTERM lets it end before it ends with 0', async () => {
    const waiting: ServerResponse[] = []
    const backend = await HttpBackend.start((_req, res) => {
      res.write('first ')
      waiting.push(res)
    })
    const { container } = await started({ env: { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: backend.url } })
    const port = await container.listening()
    const res = await new Promise<IncomingMessage>((resolve, reject) => {
      request({ host: '127.0.0.1', port, path: '/', agent: false }, resolve).on('error', reject).end()
    })
    let text = ''
    res.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    const ended = new Promise((resolve) => res.on('end', resolve))
    await until(() => text === 'first ')
    await container.signal('TERM')
    await until(() => container.stderr.includes('"event":"stopping"'))
    waiting[0]!.end('last')
    await ended
    expect(text).toBe('first last')
    expect(await container.exited).toBe(0)
  })

  test.each([
    [300, /Give it at least (\d+) MiB/],
    [3000, /(\d+) MiB for\s+bundles of thousands of policies/],
  ])('serves in the memory that the documentation asks for, under load and with bundles of %i policies', async (policies, stated) => {
    const memoryBytes = (await statedMib(stated)) * MIB
    const { container, folder } = await started({ memoryBytes })
    const port = await container.listening()
    const [statuses] = await Promise.all([decisions(port, 10_000), reloads(container, folder, 3, policies)])
    expect([...statuses.keys()].filter((status) => ![200, 429].includes(status))).toEqual([])
    expect(await container.peakBytes()).toBeLessThan(memoryBytes)
    await container.signal('TERM')
    expect(await container.exited).toBe(0)
  })

  test('proxies bodies in the memory that the documentation asks for', async () => {
    const backend = await HttpBackend.start((req, res) => void req.resume().on('end', () => res.end()))
    const memoryBytes = (await statedMib(/Give it at least (\d+) MiB/)) * MIB
    const { container } = await started({ memoryBytes, env: { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: backend.url } }, 1, 1e6)
    expect(await uploads(await container.listening(), 1000, 200_000)).toEqual(new Map([[200, 1000]]))
    await container.signal('TERM')
    expect(await container.exited).toBe(0)
  })

  test('refuses a bundle that takes more than the share of a heap, and goes on with the one before', async () => {
    // Counters that may take everything leave the least that a heap can have.
    const { container, folder } = await started({ memoryBytes: 512 * MIB, env: { EDGE_STORE_SIZE: '512m' } })
    await container.listening()
    const rules = Array.from({ length: 5 }, (_, i) => bucketRule(`r${i}`, [], 1))
    const policies = Array.from({ length: 10_000 }, (_, i) => policy(`p${i}`, { rules }))
    await replaceFile(join(folder, 'bundle.json'), JSON.stringify(bundle(2, ...policies)))
    await until(() => container.stderr.includes('workers died while compiling it'))
    expect(container.stderr).toContain('"cause":"out_of_memory"')
    await until(async () => (await container.exec('edge', 'health')).stdout === 'ready, bundle version 1\n')
  })

  test('is killed in far less', async () => {
    const { container } = await started({ memoryBytes: 40 * MIB })
    expect(await container.exited).toBe(137)
  })

  test.skipIf(NATIVE === 'arm64')('the program for arm64 runs too', async () => {
    const folder = join(scratch, 'arm64')
    await (await OciImage.open(join(scratch, 'image'), 'arm64')).unpack(folder)
    const program = [join(folder, 'usr/local/bin/node'), join(folder, 'usr/lib/edge/edge.js')]
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string }
    expect(await succeed(scratch, 'qemu-aarch64-static', '-L', folder, ...program, '--version')).toBe(`${version}\n`)
  })
})

function bundleText(version: number, burst = 2): string {
  return JSON.stringify(bundle(version, policy('p', { rules: [bucketRule('r', [], burst, 0.001)] })))
}

async function statedMib(stated: RegExp): Promise<number> {
  return Number(stated.exec(await readFile(join(ROOT, 'docs/deployment.md'), 'utf8'))![1])
}
