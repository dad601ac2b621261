import { load, YAML11_SCHEMA } from 'js-yaml'
import { expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { SETTINGS } from '../../src/config/settings.ts'
import { readText } from '../docs/markdown.ts'
import { CHART_CASES, MINIMAL, REFUSED_VALUES, SECRET_VALUES } from '../support/chart/chart-cases.ts'
import {
  describeWithHelm,
  environmentOf,
  linted,
  type Manifest,
  manifests,
  notesOf,
  only,
  packedFiles,
  podOf,
  refused,
  rendered,
  renderedBy,
  type Values,
  validated,
} from '../support/chart/helm.ts'
import { RULE_FILES } from '../support/prometheus/deployed.ts'
import { serving, thisTest } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'

const EXAMPLES = ['examples/quickstart.json', 'examples/llm-budget.json', 'examples/tenants.yaml', 'examples/fleet/limits.yaml']
const FLEET = CHART_CASES['a fleet with everything']!
const PROXY = CHART_CASES['one proxy that keeps what it counted']!
const GRPC = CHART_CASES['gRPC alone, with TLS to clients that have certificates']!

const ANY_POD = [{ namespaceSelector: {} }]

describeWithHelm('the chart', () => {
  test.each(Object.entries(CHART_CASES))('%s: Helm, Kubernetes and edge accept it', async (_name, values) => {
    expect(await linted(values)).toMatchObject({ status: 0 })
    const text = await rendered(values)
    expect(await validated(text)).toMatchObject({ status: 0, stdout: '' })
    const read = readConfig(environmentOf(text, SECRET_VALUES), {})
    expect(read).toMatchObject({ ok: true, config: { unknownVariables: [] } })
  })

  test('every setting can be given', async () => {
    const texts = await Promise.all(Object.values(CHART_CASES).map((values) => rendered(values)))
    const given = new Set(texts.flatMap((text) => Object.keys(environmentOf(text))))
    expect(Object.values(SETTINGS).filter(({ env }) => !given.has(env))).toEqual([])
  })

  test.each(REFUSED_VALUES)('%j is refused with a sentence', async (values, says) => {
    const { status, stdout, stderr } = await refused(values)
    expect([status, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(says)
  })

  test('every value that may be taken away is as good as empty, and the others have to be there', async () => {
    const schema = JSON.parse(readText('deploy/helm/edge/values.schema.json')) as ValuesSchema
    const less = withoutOptional(load(readText('deploy/helm/edge/values.yaml'), { schema: YAML11_SCHEMA }) as Values, schema)
    expect(less).toMatchObject({ tolerations: null, bundle: { signature: null }, settings: { EDGE_DRAIN_MS: null } })
    const bundle = { ...(less['bundle'] as Values), inline: null, configMap: 'limits' }
    const text = await rendered({ ...less, bundle })
    expect(text).not.toMatch(/<nil>|<no value>|\bnull\b/)
    expect(await validated(text)).toMatchObject({ status: 0, stdout: '' })
    expect(readConfig(environmentOf(text), {})).toMatchObject({ ok: true, config: { unknownVariables: [] } })
  })

  test('all problems are named at once', async () => {
    const { stderr } = await refused({ mode: 'reverse_proxy', ports: { grpc: 8080 } })
    for (const problem of ['bundle: ', 'mode: ', 'ports.grpc: expected off', 'ports.grpc: expected a port'])
      expect(stderr).toContain(problem)
  })

  test('kubeconform finds a misspelled field of Kubernetes, and one of the Prometheus Operator', async () => {
    const text = await rendered(FLEET)
    for (const [right, wrong] of [
      ['topologyKey', 'topologyKeys'],
      ['scrapeTimeout', 'scrapeTimeouts'],
      ['readOnlyRootFilesystem', 'readOnlyRootFileSystem'],
    ] as const) {
      const base = right === 'topologyKey' ? await rendered(MINIMAL) : text
      expect(base).toContain(`${right}:`)
      expect(await validated(base.replace(`${right}:`, `${wrong}:`))).toMatchObject({ status: 1, stdout: expect.stringContaining(wrong) })
    }
  })

  test('the command of its page works, with an example as the bundle', async () => {
    const [, command] = /```sh\nhelm install edge (deploy\/helm\/edge .*)\n```/.exec(readText('deploy/helm/edge/README.md'))!
    const text = await renderedBy(command!.replace('limits.yaml', 'examples/quickstart.json').split(' '))
    expect(only(text, 'ConfigMap').data['bundle.yaml']).toBe(readText('examples/quickstart.json'))
    expect(podOf(text).containers[0].image).toMatch(/^images\.example\/edge:\d/)
  })

  test.each(EXAMPLES)('%s is in the pods as it is in the repository', async (file) => {
    const text = await renderedBy(['deploy/helm/edge', '--set-file', `bundle.inline=${file}`])
    expect(only(text, 'ConfigMap').data['bundle.yaml']).toBe(readText(file))
  })

  test('the package has the rules and the page about its values', async () => {
    expect(await packedFiles()).toEqual(
      expect.arrayContaining([
        'edge/Chart.yaml',
        'edge/README.md',
        'edge/values.schema.json',
        ...RULE_FILES.map((file) => `edge/rules/${file}`),
      ]),
    )
  })
})

interface ValuesSchema {
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, ValuesSchema>>
}

/** Null for each value that the schema does not ask for. */
function withoutOptional(values: Values, { required = [], properties = {} }: ValuesSchema): Values {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      if (!required.includes(name)) return [name, null]
      const isGroup = value !== null && typeof value === 'object' && !Array.isArray(value)
      return [name, isGroup ? withoutOptional(value as Values, properties[name] ?? {}) : value]
    }),
  )
}

describeWithHelm('the pod', () => {
  test.each(Object.entries(CHART_CASES))('%s: is what a restricted namespace admits', async (_name, values) => {
    const pod = podOf(await rendered(values))
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: { runAsNonRoot: true, runAsUser: 65532, fsGroup: 65532, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
        },
      ],
    })
    expect(pod.containers[0].lifecycle).toBeUndefined()
    // What is mounted by subPath is never updated.
    expect(pod.containers[0].volumeMounts.filter((mount: Manifest) => 'subPath' in mount)).toEqual([])
  })

  test('is probed on the admin port, with TLS where that speaks it', async () => {
    for (const [values, scheme] of [
      [MINIMAL, 'HTTP'],
      [GRPC, 'HTTP'],
      [PROXY, 'HTTPS'],
    ] as const) {
      const [container] = podOf(await rendered(values)).containers
      expect(container.startupProbe.httpGet).toEqual({ path: '/livez', port: 'admin', scheme })
      expect(container.livenessProbe.httpGet).toEqual({ path: '/livez', port: 'admin', scheme })
      expect(container.readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'admin', scheme })
    }
  })

  test.each<[what: string, values: Values, more: Record<string, string>]>([
    ['a decision service', MINIMAL, {}],
    [
      'a decision service with all that takes time',
      {
        ...MINIMAL,
        ports: { grpc: 8081 },
        secrets: { EDGE_REDIS_URL: { name: 'x', key: 'x' }, EDGE_EVENTS_SECRET: { name: 'x', key: 'x' } },
        settings: {
          EDGE_DRAIN_MS: 1001,
          EDGE_REDIS_TIMEOUT_MS: 2345,
          EDGE_OTLP_URL: 'http://127.0.0.1:1',
          EDGE_EVENTS_URL: 'http://127.0.0.1:1',
        },
      },
      {},
    ],
    ['a proxy', { ...MINIMAL, mode: 'reverse_proxy', settings: { EDGE_BACKEND_URL: 'http://127.0.0.1:1' } }, {}],
    [
      'a proxy that lets nothing finish',
      { ...MINIMAL, mode: 'reverse_proxy', settings: { EDGE_BACKEND_URL: 'http://127.0.0.1:1', EDGE_SHUTDOWN_MS: 0 } },
      {},
    ],
  ])('%s: has as long to end as its steps may take', async (_what, values) => {
    const text = await rendered({ ...values, rollout: { extraGraceSeconds: 0 } })
    const { EDGE_HOST: _, ...env } = environmentOf(text, SECRET_VALUES)
    const ports = { EDGE_PORT: '0', EDGE_ADMIN_PORT: '0', ...(env['EDGE_GRPC_PORT'] === undefined ? {} : { EDGE_GRPC_PORT: '0' }) }
    const edge = await serving({ ...env, ...ports, EDGE_CONFIG_FILE: 'examples/quickstart.json' }, [], thisTest)
    edge.process.kill('SIGTERM')
    const [stopping] = await untilLogged(edge, 'stopping')
    expect(podOf(text).terminationGracePeriodSeconds).toBe(Math.ceil((stopping!['up_to_ms'] as number) / 1000))
  })

  test('gets more time to end for files, and for Redis as its timeout says', async () => {
    expect(podOf(await rendered(MINIMAL)).terminationGracePeriodSeconds).toBe(14 + 15)
    // 10 s drain, 5 s requests, 3.5 s for the admin port and workers, 3 × 60 s Redis, 1 s spans, 2 s decision log, 1 s events; 30 s more.
    expect(podOf(await rendered(FLEET)).terminationGracePeriodSeconds).toBe(203 + 30)
  })

  test('has secrets by their names alone', async () => {
    const { containers, volumes } = podOf(await rendered(FLEET))
    const fromSecrets = containers[0].env.filter(({ valueFrom }: Manifest) => valueFrom?.secretKeyRef !== undefined)
    expect(fromSecrets.map(({ name }: Manifest) => name)).toEqual(Object.keys(FLEET['secrets'] as object).sort())
    expect(fromSecrets[0]).toEqual({
      name: 'EDGE_ADMIN_READ_TOKEN',
      valueFrom: { secretKeyRef: { name: 'edge-secrets', key: 'EDGE_ADMIN_READ_TOKEN' } },
    })
    expect(volumes).toContainEqual({ name: 'secrets', secret: { secretName: 'provider-keys', defaultMode: 0o440 } })
  })

  test('mounts the bundle as a directory, byte by byte as it was', async () => {
    const inline = 'bundle_version: 1 # "quoted" <tag> {{ not a template }} ü\u2028\n\n  \npolicies: []\n\n'
    const text = await rendered({ bundle: { inline, signature: 'abc=\n', key: 'limits.yaml' } })
    expect(only(text, 'ConfigMap').data).toEqual({ 'limits.yaml': inline, 'limits.yaml.sig': 'abc=\n' })
    const { containers, volumes } = podOf(text)
    expect(containers[0].volumeMounts).toContainEqual({ name: 'bundle', mountPath: '/etc/edge/bundle', readOnly: true })
    expect(volumes).toContainEqual({ name: 'bundle', configMap: { name: 'edge-bundle' } })
    expect(environmentOf(text)['EDGE_CONFIG_FILE']).toBe('/etc/edge/bundle/limits.yaml')
  })

  test('is replaced for a new bundle only if asked to', async () => {
    const annotations = async (bundle: object) => only(await rendered({ bundle }), 'Deployment').spec.template.metadata.annotations
    expect(await annotations({ inline: 'a' })).toEqual(await annotations({ inline: 'b' }))
    expect(await annotations({ inline: 'a', restartOnChange: true })).not.toEqual(await annotations({ inline: 'b', restartOnChange: true }))
  })

  test('keeps its files in an emptyDir, in a claim of its own, or in its folder of a shared claim', async () => {
    const dataOf = async (values: Values) => {
      const text = await rendered(values)
      const named = ({ name }: Manifest) => name === 'data'
      const { containers, volumes } = podOf(text)
      const { spec } = only(text, 'Deployment')
      return {
        mount: containers[0].volumeMounts.find(named),
        volume: volumes.find(named),
        strategy: spec.strategy.type,
        claims: manifests(text, 'PersistentVolumeClaim'),
      }
    }
    expect(await dataOf(MINIMAL)).toMatchObject({ mount: undefined, volume: undefined, strategy: 'RollingUpdate', claims: [] })
    expect(await dataOf(CHART_CASES['a bundle from a URL that is a secret, and files of yours']!)).toMatchObject({
      mount: { mountPath: '/var/lib/edge' },
      volume: { emptyDir: { sizeLimit: '100Mi' } },
      claims: [],
    })
    expect(await dataOf(PROXY)).toMatchObject({
      volume: { persistentVolumeClaim: { claimName: 'edge-data' } },
      strategy: 'Recreate',
      claims: [{ metadata: { annotations: { 'helm.sh/resource-policy': 'keep' } }, spec: { accessModes: ['ReadWriteOnce'] } }],
    })
    expect(await dataOf(FLEET)).toMatchObject({
      mount: { subPathExpr: '$(POD_NAME)' },
      volume: { persistentVolumeClaim: { claimName: 'company-limits-data' } },
      strategy: 'RollingUpdate',
      claims: [{ spec: { accessModes: ['ReadWriteMany'], storageClassName: 'shared', resources: { requests: { storage: '10Gi' } } } }],
    })
    const mine = await dataOf({ ...PROXY, data: { stateFile: true, volume: 'claim', claim: { name: 'mine' } } })
    expect(mine).toMatchObject({ volume: { persistentVolumeClaim: { claimName: 'mine' } }, claims: [] })
  })
})

describeWithHelm('what surrounds the pods', () => {
  test('a rollout takes no pod away before the next one is ready, and an autoscaler says how many there are', async () => {
    const { spec } = only(await rendered(MINIMAL), 'Deployment')
    expect([spec.replicas, spec.strategy.rollingUpdate]).toEqual([2, { maxUnavailable: 0, maxSurge: '25%' }])
    const text = await rendered(FLEET)
    expect(only(text, 'Deployment').spec.replicas).toBeUndefined()
    expect(only(text, 'HorizontalPodAutoscaler').spec).toMatchObject({
      minReplicas: 3,
      maxReplicas: 9,
      scaleTargetRef: { name: 'company-limits' },
    })
    expect(only(text, 'PodDisruptionBudget').spec).toMatchObject({ maxUnavailable: '20%', unhealthyPodEvictionPolicy: 'AlwaysAllow' })
    expect(manifests(await rendered(PROXY), 'PodDisruptionBudget')).toEqual([])
  })

  test('every selector finds the pods, and only the monitor tells the two services apart', async () => {
    const text = await rendered(FLEET)
    const { labels } = only(text, 'Deployment').spec.template.metadata
    const [main, admin] = manifests(text, 'Service')
    for (const selector of [
      only(text, 'Deployment').spec.selector.matchLabels,
      main.spec.selector,
      admin.spec.selector,
      only(text, 'PodDisruptionBudget').spec.selector.matchLabels,
      only(text, 'NetworkPolicy').spec.podSelector.matchLabels,
    ])
      expect(labels).toMatchObject(selector)
    const monitored = only(text, 'ServiceMonitor').spec.selector.matchLabels
    expect(admin.metadata.labels).toMatchObject(monitored)
    expect(main.metadata.labels).not.toMatchObject(monitored)
    expect(admin.spec).toMatchObject({ clusterIP: 'None', publishNotReadyAddresses: true })
  })

  test('objects are named after the release, whatever its name', async () => {
    const names = async (release: string) => manifests(await rendered(MINIMAL, release), 'Service').map(({ metadata }) => metadata.name)
    expect(await names('edge')).toEqual(['edge', 'edge-admin'])
    expect(await names('shop.limits')).toEqual(['shop-limits-edge', 'shop-limits-edge-admin'])
    const long = await names('x'.repeat(53))
    expect(long[0]).toMatch(/^x{53}-ed$/)
    expect(long.map((name) => name.length)).toEqual([56, 62])
    // What ends in a dash once it is cut, and what YAML would take for a switch.
    const given = async (fullnameOverride: string) => validNames(await rendered({ ...MINIMAL, fullnameOverride }))
    expect(await given(`${'x'.repeat(54)}--x`)).toContain('x'.repeat(54))
    expect(await given('true')).toContain('true')
  })

  test('a release whose name begins with a digit needs another name, which its Services can have', async () => {
    const { stderr } = await refused(MINIMAL, '42')
    expect(stderr).toContain('Services would be called 42-edge, and their names must begin with a letter')
    expect(await validNames(await rendered({ ...MINIMAL, fullnameOverride: 'limits' }, '42'))).toContain('limits')
  })

  /** Of a release that kubeconform accepts, of which all names and labels are texts. */
  async function validNames(text: string): Promise<string[]> {
    expect(await validated(text)).toMatchObject({ status: 0, stdout: '' })
    return manifests(text, 'Service').map(({ metadata }) => metadata.name)
  }

  test('services say what their ports speak', async () => {
    const ports = async (values: Values) =>
      manifests(await rendered(values), 'Service').flatMap(({ spec }) =>
        spec.ports.map(({ name, appProtocol }: Manifest) => `${name} ${appProtocol}`),
      )
    expect(await ports(FLEET)).toEqual(['http http', 'grpc kubernetes.io/h2c', 'admin http'])
    expect(await ports(GRPC)).toEqual(['grpc https', 'admin http'])
    expect(await ports(PROXY)).toEqual(['http https', 'admin https'])
  })

  test('a network policy names the ports that are open, and what the settings connect to', async () => {
    const policyOf = async (values: Values) => only(await rendered(values), 'NetworkPolicy').spec
    const names = ({ ingress }: Manifest) => ingress.map(({ ports }: Manifest) => ports.map(({ port }: Manifest) => port))
    const targets = ({ egress }: Manifest) => egress.map(({ ports }: Manifest) => ports?.map(({ port }: Manifest) => port))
    const [minimal, fleet, grpc, proxy] = await Promise.all(
      [{ ...MINIMAL, networkPolicy: { enabled: true, operators: ANY_POD } }, FLEET, GRPC, PROXY].map(policyOf),
    )
    expect([names(minimal), targets(minimal)]).toEqual([[['http'], ['admin']], [[53, 53]]])
    // DNS, Redis, the bundle, key sets, events, traces, and a rule of one's own.
    expect([names(fleet), targets(fleet)]).toEqual([
      [['http', 'grpc'], ['admin']],
      [[53, 53], [6380], [8443], [443, 80, 8443], [443], [4318], undefined],
    ])
    expect(names(grpc)).toEqual([['grpc'], ['admin']])
    expect([names(proxy), targets(proxy)]).toEqual([
      [['http'], ['admin']],
      [[53, 53], [8000], [443]],
    ])
    expect(fleet.ingress[0].from).toEqual(fleet.ingress[1].from)
    expect(fleet.egress[1].to).toHaveLength(1)
    expect([minimal.ingress[0].from, minimal.ingress[1].from]).toEqual([undefined, ANY_POD])
  })

  test('a network policy without ports for Redis falls back to its usual one', async () => {
    const redis = {
      secrets: { EDGE_REDIS_URL: { name: 'x', key: 'x' } },
      networkPolicy: { enabled: true, operators: ANY_POD, egress: { redis: { ports: null } } },
    }
    const { egress } = only(await rendered({ ...MINIMAL, ...redis }), 'NetworkPolicy').spec
    expect(egress.map(({ ports }: Manifest) => ports.map(({ port }: Manifest) => port))).toEqual([[53, 53], [6379]])
  })

  test.each<[what: string, values: Values]>([
    ['requests that are the limits, in other units', { resources: { requests: { cpu: '2000m', memory: '1024Mi' } } }],
    ['quantities with fractions, of all kinds', { resources: { requests: { cpu: 0.5, memory: '0.5Gi', 'ephemeral-storage': '1G' } } }],
    ['no limits', { resources: { limits: { cpu: null, memory: null } }, settings: { EDGE_STORE_SIZE: '4g' } }],
    ['a registry with a port, and a path', { image: { repository: 'Images.Example:5000/team-a/edge_x/edge', tag: '1.0.0-rc.1_x' } }],
    ['a scrape that may take the whole interval', { metrics: { serviceMonitor: { enabled: true, interval: '60s', scrapeTimeout: '1m' } } }],
    ['addresses, networks and words', { settings: { EDGE_TRUSTED_PROXIES: 'loopback, 10.0.0.0/8,2001:db8::/32, 192.0.2.1' } }],
    [
      'URLs with a query, an address of IPv6, and ports up to the last',
      { settings: { EDGE_OTLP_URL: 'http://[2001:db8::1]:65535/v1/traces' } },
    ],
    [
      "a variable and a volume of one's own",
      { extraEnv: [{ name: 'POD_NAME', value: 'x' }], extraVolumes: [{ name: 'data', emptyDir: {} }] },
    ],
  ])('%s: no reason to refuse them', async (_what, values) => {
    expect(await validated(await rendered({ ...MINIMAL, ...values }))).toMatchObject({ status: 0, stdout: '' })
  })

  test('a bundle by a URL with a query, in which a percent sign stands for a byte, is taken as it is', async () => {
    const url = 'https://config.example/a%20b/limits.yaml?team=a&version=1'
    expect(environmentOf(await rendered({ bundle: { url } }))['EDGE_CONFIG_URL']).toBe(url)
  })

  test('the monitor calls the job as the alerts do, and the rules are those of deploy/prometheus', async () => {
    const text = await rendered(FLEET)
    expect(only(text, 'ServiceMonitor').spec.endpoints).toEqual([
      {
        port: 'admin',
        path: '/metrics',
        interval: '30s',
        scrapeTimeout: '5s',
        relabelings: [{ targetLabel: 'job', replacement: 'edge' }],
      },
    ])
    expect(only(await rendered(PROXY), 'ServiceMonitor').spec.endpoints[0]).toMatchObject({
      scheme: 'https',
      tlsConfig: { insecureSkipVerify: true },
    })
    const deployed = (base: string) =>
      RULE_FILES.flatMap((file) => {
        const rules = readText(`deploy/prometheus/${file}`).replaceAll('docs/runbook.md#', `${base}#`)
        return (load(rules) as { groups: object[] }).groups
      })
    expect(only(text, 'PrometheusRule').spec.groups).toEqual(deployed('https://docs.example/runbook'))
    const plain = await rendered({ ...MINIMAL, metrics: { prometheusRule: { enabled: true } } })
    expect(only(plain, 'PrometheusRule').spec.groups).toEqual(deployed('docs/runbook.md'))
  })

  test('the notes warn of what surprises', async () => {
    const minimal = await notesOf(MINIMAL)
    expect(minimal).toContain('Gateways ask edge.default:8080, at /v1/decision.')
    expect(minimal).toContain('Each pod counts by itself')
    expect(minimal).toMatch(
      /OPEN: without networkPolicy.enabled, every pod of the cluster can connect .*\n.*main ports.*\n.*admin port \(9090\)/,
    )
    expect(minimal).not.toContain('guess the admin token')
    expect(await notesOf({ ...MINIMAL, networkPolicy: { enabled: true, operators: ANY_POD } })).not.toContain('OPEN')
    expect(minimal).toContain('publish the old policies again under a higher version')
    const kept = await notesOf({ ...MINIMAL, replicas: 1, data: { stateFile: true, keysFile: true } })
    expect(kept).not.toContain('Each pod counts by itself')
    expect(kept).toContain('not the replacement of its pod')
    expect(kept).toContain('Issued keys are only in an emptyDir')
    expect(await notesOf(FLEET)).toContain('port-forward deployment/company-limits 9000')
  })
})
