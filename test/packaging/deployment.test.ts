import { join } from 'node:path'
import { load } from 'js-yaml'
import { expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { codeBlocks, readText } from '../docs/markdown.ts'
import { describeWithHelm, HELM, type Manifest, only, podOf, renderedBy, validated } from '../support/chart/helm.ts'
import { StoredApi } from '../support/chart/stored-api.ts'
import { succeed } from '../support/packaging/npm.ts'
import { ROOT } from '../support/packaging/source-copy.ts'
import { scratchDirectory, serving, thisTest } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { until } from '../support/until.ts'

const PAGE = readText('docs/deployment.md')
const CHART = 'deploy/helm/edge'
const COMMANDS = codeBlocks(PAGE, 'sh').filter((block) => block.startsWith('helm '))

describeWithHelm('docs/deployment.md', () => {
  test('its commands of Helm give manifests that Kubernetes accepts, with an example as the bundle', async () => {
    const [install, scale, upgrade, ...rest] = COMMANDS.map((block) => wordsOf(block.replaceAll('limits.yaml', 'examples/quickstart.json')))
    // That goes back to manifests that were there before; a trial on a real API server does it.
    expect(rest).toEqual([['helm', 'rollback', 'edge']])
    let values: string[] = []
    const { version } = JSON.parse(readText('package.json')) as { version: string }
    const archive = `edge-chart-${version}.tgz`
    const directory = await scratchDirectory()
    await succeed(directory, 'tar', '-C', join(ROOT, 'deploy/helm'), '-czf', archive, 'edge')
    for (const [words, command, chart, replicas] of [
      [install!, 'install', CHART, 2],
      [scale!, 'upgrade', CHART, 3],
      [upgrade!, 'upgrade', archive, 3],
    ] as const) {
      expect(words.slice(0, 4)).toEqual(['helm', command, 'edge', chart])
      // The values of all commands before stay, and all others are those of the chart.
      expect(words.includes('--reset-then-reuse-values')).toBe(command === 'upgrade')
      values = [...values, ...words.slice(4).filter((word) => word !== '--reset-then-reuse-values')]
      const text = await renderedBy([chart === CHART ? CHART : join(directory, archive), ...values])
      expect(await validated(text)).toMatchObject({ status: 0, stdout: '' })
      expect(only(text, 'Deployment').spec.replicas).toBe(replicas)
      expect(podOf(text).containers[0].env).toContainEqual({
        name: 'EDGE_REDIS_URL',
        valueFrom: { secretKeyRef: { name: 'edge-redis', key: 'url' } },
      })
      expect(podOf(text).containers[0].image).toBe(`images.example/edge:${version}`)
    }
  })

  test('its commands of Helm, one after another, keep what was set before, and go back', async () => {
    const api = await StoredApi.start(thisTest)
    const directory = await scratchDirectory()
    await succeed(ROOT, 'cp', '-r', CHART, join(ROOT, 'examples/quickstart.json'), directory)
    const { version } = JSON.parse(readText('package.json')) as { version: string }
    await succeed(directory, 'tar', '-czf', `edge-chart-${version}.tgz`, 'edge')
    const seen: unknown[] = []
    for (const block of COMMANDS) {
      const words = wordsOf(block.replaceAll('limits.yaml', 'quickstart.json').replaceAll(CHART, './edge')).slice(1)
      // The server has no schemas; those of the manifests are checked by the test before.
      const more = words[0] === 'rollback' ? [] : ['--disable-openapi-validation']
      await succeed(directory, 'env', `KUBECONFIG=${api.kubeconfig}`, HELM, ...words, ...more)
      const [{ spec }] = api.objects('deployments') as [Manifest]
      const { env, image } = spec.template.spec.containers[0]
      const [url] = env.filter(({ name }: Manifest) => name === 'EDGE_REDIS_URL')
      const [bundle] = api.objects('configmaps') as [Manifest]
      seen.push([
        words[0],
        spec.replicas,
        image,
        url?.valueFrom?.secretKeyRef,
        bundle.data['bundle.yaml'] === readText('examples/quickstart.json'),
      ])
    }
    const same = [`images.example/edge:${version}`, { name: 'edge-redis', key: 'url' }, true]
    expect(seen).toEqual([
      ['install', 2, ...same],
      ['upgrade', 3, ...same],
      ['upgrade', 3, ...same],
      ['rollback', 3, ...same],
    ])
  })

  test('its sidecar is a pod that Kubernetes accepts, with settings that edge knows', async () => {
    expect(await validated(SIDECAR)).toMatchObject({ status: 0, stdout: '' })
    expect(readConfig(sidecar().env, {})).toMatchObject({
      ok: true,
      config: { host: '127.0.0.1', adminPort: 9090, workers: 1, unknownVariables: [] },
    })
  })
})

test('the sidecar of docs/deployment.md decides for its own pod alone, and is probed from outside of it', async () => {
  const { env, startupProbe, livenessProbe } = sidecar()
  const edge = await serving({ ...env, EDGE_PORT: '0', EDGE_ADMIN_PORT: '0', EDGE_CONFIG_FILE: 'examples/quickstart.json' })
  const [{ port: adminPort }] = (await untilLogged(edge, 'admin_listening')) as [{ port: number }]
  for (const { httpGet } of [startupProbe, livenessProbe]) {
    expect(httpGet.port).toBe(Number(env['EDGE_ADMIN_PORT']))
    await until(async () => (await fetch(`http://${ANOTHER_ADDRESS}:${adminPort}${httpGet.path}`)).status === 200)
  }
  expect((await fetch(`http://127.0.0.1:${edge.port}/`)).status).toBe(404)
  await expect(fetch(`http://${ANOTHER_ADDRESS}:${edge.port}/`)).rejects.toThrow('fetch failed')
})

const SIDECAR = codeBlocks(PAGE, 'yaml')[0]!
/** This machine, but not where a listener on 127.0.0.1 is reached: to the kubelet, the address of a pod is no more than that. */
const ANOTHER_ADDRESS = '127.0.0.2'

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: number }
}

function sidecar(): { env: Record<string, string>; startupProbe: Probe; livenessProbe: Probe } {
  const { spec } = load(SIDECAR) as {
    spec: { initContainers: [{ env: { name: string; value: string }[]; startupProbe: Probe; livenessProbe: Probe }] }
  }
  const [{ env, ...probes }] = spec.initContainers
  return { ...probes, env: Object.fromEntries(env.map(({ name, value }) => [name, value])) }
}

function wordsOf(block: string): string[] {
  return block.replaceAll('\\\n', ' ').trim().split(/\s+/)
}
