import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { load } from 'js-yaml'
import { describe, expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { bundle } from '../support/bundles/bundles.ts'
import { describeWith } from '../support/describe-with.ts'
import { Container, readableFolder } from '../support/packaging/container.ts'
import { describeWithContainers } from '../support/packaging/container-tools.ts'
import { run, succeed } from '../support/packaging/npm.ts'
import type { ImageConfig } from '../support/packaging/oci-image.ts'
import { ROOT } from '../support/packaging/source-copy.ts'
import { ask } from '../support/service/http.ts'
import { scratchDirectory } from '../support/service/running.ts'
import { serverPort } from '../support/service/server-port.ts'
import { original } from '../support/service/wire.ts'
import { testPart } from '../support/test-part.ts'

const HADOLINT = testPart('hadolint')
const BUILD = { timeout: 1_800_000 }

describeWith(existsSync(HADOLINT) ? undefined : 'hadolint not installed: sh scripts/install-test-parts.sh', 'hadolint', () => {
  test('finds nothing in the Dockerfile, and something in a bad one', async () => {
    expect(await run(ROOT, HADOLINT, 'Dockerfile')).toEqual({ status: 0, stdout: '', stderr: '' })
    const folder = await scratchDirectory()
    await writeFile(join(folder, 'Dockerfile'), 'FROM node:latest\nRUN cd /tmp\n')
    expect((await run(folder, HADOLINT, 'Dockerfile')).status).toBe(1)
  })
})

interface Compose {
  readonly services: Readonly<Record<string, { environment?: Record<string, string>; volumes?: string[]; build?: string }>>
}

describe('docker-compose.yaml', () => {
  test('mounts what is there, and gives edge settings that it takes', async () => {
    const { services } = load(await readFile(join(ROOT, 'docker-compose.yaml'), 'utf8')) as Compose
    expect(Object.keys(services)).toEqual(['edge', 'redis', 'prometheus', 'grafana'])
    const sources = Object.values(services).flatMap(({ volumes = [] }) => volumes.map((volume) => volume.split(':')[0]!))
    expect(sources.length).toBeGreaterThan(5)
    for (const source of sources) expect(existsSync(join(ROOT, source)), source).toBe(true)
    const env = services['edge']!.environment!
    const result = readConfig(env, {})
    expect(result.ok && result.config.unknownVariables).toEqual([])
    expect(existsSync(join(ROOT, 'examples', env['EDGE_CONFIG_FILE']!.replace('/etc/edge/', '')))).toBe(true)
  })
})

/** The real base images come from a registry. A stand-in has what the Dockerfile uses of them: Node, npm, a shell and some of coreutils. */
describeWithContainers(['buildah', 'mmdebstrap', 'runc'], 'the Dockerfile, on a stand-in for its base images', () => {
  test('builds an image that serves, read-only, as its user', BUILD, async () => {
    const scratch = await scratchDirectory()
    const buildah = (...args: string[]): Promise<string> => succeed(scratch, 'buildah', ...storageOptions(scratch), ...args)
    await writeStandIn(join(scratch, 'stand-in'))
    await buildah('bud', '--isolation', 'chroot', '--tag', 'stand-in', join(scratch, 'stand-in'))
    const bases = ['BUILD_IMAGE', 'RUN_IMAGE'].flatMap((name) => ['--build-arg', `${name}=localhost/stand-in`])
    await buildah('bud', '--isolation', 'chroot', '--format', 'docker', ...bases, '--tag', 'edge', ROOT)
    const container = (await buildah('from', 'localhost/edge')).trim()
    const rootfs = (await buildah('mount', container)).trim()
    const { Docker } = JSON.parse(await buildah('inspect', '--type', 'image', 'localhost/edge')) as { Docker: { config: ImageConfig } }

    const folder = await readableFolder()
    await writeFile(join(folder, 'bundle.json'), JSON.stringify(bundle(1)))
    const env = { EDGE_HOST: '127.0.0.1', EDGE_PORT: String(await serverPort()), EDGE_CONFIG_FILE: '/etc/edge/bundle.json' }
    const edge = await Container.start(rootfs, Docker.config, { env, mounts: { '/etc/edge': folder } })
    const port = await edge.listening()
    expect(await readFile(`/proc/${await edge.pid()}/status`, 'utf8')).toMatch(/^Uid:\t65532\t/m)
    expect((await ask(port, 'POST', '/v1/decision', original('/'))).status).toBe(200)
    const [, ...check] = Docker.config.Healthcheck.Test as [string, ...string[]]
    expect(await edge.exec(...check)).toEqual({ status: 0, stdout: 'ready, bundle version 1\n', stderr: '' })
    await edge.signal('TERM')
    expect(await edge.exited).toBe(0)
    await buildah('rm', '--all')
  })
})

/** Everything that buildah stores goes away with the test. */
function storageOptions(scratch: string): string[] {
  return ['--storage-driver', 'vfs', '--root', join(scratch, 'storage'), '--runroot', join(scratch, 'run')]
}

const STAND_IN = 'FROM scratch\nADD base.tar /\nCOPY node /usr/local/bin/node\nCOPY npm /usr/local/lib/npm\n'
const NPM = 'RUN ["/bin/ln", "-s", "../lib/npm/bin/npm-cli.js", "/usr/local/bin/npm"]\n'

/** Uses the npm registry that this machine is set up for, and the authorities that it trusts. */
async function writeStandIn(folder: string): Promise<void> {
  await mkdir(folder)
  const packages = 'base-files,coreutils,dash,findutils,libc-bin,libstdc++6'
  await succeed(folder, 'mmdebstrap', '--quiet', '--variant=extract', `--include=${packages}`, 'bookworm', join(folder, 'base.tar'))
  await cp(process.execPath, join(folder, 'node'))
  await cp(npmFolder(), join(folder, 'npm'), { recursive: true, dereference: true })
  const authorities = process.env['NODE_EXTRA_CA_CERTS']
  if (authorities !== undefined) await cp(authorities, join(folder, 'npm/authorities.pem'))
  const registry = (await succeed(folder, 'npm', 'config', 'get', 'registry')).trim()
  const settings = [`npm_config_registry=${registry}`, ...(authorities ? ['NODE_EXTRA_CA_CERTS=/usr/local/lib/npm/authorities.pem'] : [])]
  await writeFile(join(folder, 'Dockerfile'), `${STAND_IN}ENV PATH=/usr/local/bin:/usr/bin:/bin ${settings.join(' ')}\n${NPM}`)
}

function npmFolder(): string {
  return join(dirname(execFileSync('sh', ['-c', 'readlink -f "$(command -v npm)"'], { encoding: 'utf8' })), '..')
}
