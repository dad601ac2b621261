// `npm run chart-trial`: installs, upgrades, rolls back and removes the chart on a real kube-apiserver with etcd, and prints what it saw.
// The first run builds kube-apiserver, which takes half an hour. Exit status: 0 if all was as expected.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { load } from 'js-yaml'
import { CHART_CASES } from '../test/support/chart/chart-cases.ts'
import { testPart } from '../test/support/test-part.ts'
import { Cluster, helmFor } from './chart-trial/cluster.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const CHART = join(ROOT, 'deploy/helm/edge')
const NAMESPACE = 'edge'
const CORE = `/api/v1/namespaces/${NAMESPACE}`
const APPS = `/apis/apps/v1/namespaces/${NAMESPACE}`

for (const part of ['helm', 'kubernetes-schemas']) script(`scripts/test-parts/${part}.sh`)
const cluster = await Cluster.start(script('scripts/chart-trial/kube-apiserver.sh').trim())
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void cluster.stop().finally(() => process.exit(1)))
const helm = helmFor(cluster, testPart('helm'))
try {
  await prepare()
  for (const [name, values] of Object.entries(CHART_CASES)) await installAndRemove(name, values)
  await refuseLooserPod()
  await upgradeAndRollBack()
  await switchToAutoscaling()
} finally {
  await cluster.stop()
}

/** What the cases need beside the chart: a namespace that is as strict as it can be, the operator's kinds, and a priority. */
async function prepare() {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted', 'pod-security.kubernetes.io/warn': 'restricted' }
  await cluster.create('/api/v1/namespaces', { metadata: { name: NAMESPACE, labels } })
  await cluster.create('/apis/scheduling.k8s.io/v1/priorityclasses', { metadata: { name: 'high' }, value: 1000 })
  // A controller would make it.
  await cluster.create(`${CORE}/serviceaccounts`, { metadata: { name: 'default' } })
  for (const kind of ['servicemonitors', 'prometheusrules']) {
    await cluster.define(load(readFileSync(join(operatorModule(), `monitoring.coreos.com_${kind}.yaml`), 'utf8')))
  }
  const { json } = await cluster.call('GET', '/version')
  say(`kube-apiserver ${json.gitVersion}, namespace ${NAMESPACE} enforces restricted`)
}

/** Every case is installed; its pod is created as a controller would create it; then it is removed. */
async function installAndRemove(name, values) {
  apply('install', values)
  const [deployment] = await objects(`${APPS}/deployments`)
  const { status, warning, json } = await createPod(deployment.spec.template)
  assert.equal(status, 201, json.message)
  assert.equal(warning, undefined)
  await cluster.call('DELETE', `${CORE}/pods/${json.metadata.name}?gracePeriodSeconds=0`)
  helm('uninstall', 'edge', '--namespace', NAMESPACE)
  assert.deepEqual(await objects(`${APPS}/deployments`), [])
  const claims = await objects(`${CORE}/persistentvolumeclaims`)
  assert.equal(claims.length, values.data?.volume === 'claim' ? 1 : 0)
  for (const claim of claims) {
    apply('install', values)
    assert.equal((await objects(`${CORE}/persistentvolumeclaims`))[0].metadata.uid, claim.metadata.uid)
    helm('uninstall', 'edge', '--namespace', NAMESPACE)
    await removeClaim(claim)
  }
  say(`installed, pod admitted, removed: ${name}`)
}

/** The namespace is really strict: the same pod with one field loosened is refused. */
async function refuseLooserPod() {
  apply('install', CHART_CASES.minimal)
  const [{ spec }] = await objects(`${APPS}/deployments`)
  const template = structuredClone(spec.template)
  template.spec.containers[0].securityContext.allowPrivilegeEscalation = true
  const { status, json } = await createPod(template)
  assert.equal(status, 403, json.message)
  helm('uninstall', 'edge', '--namespace', NAMESPACE)
  say(`refused with a field loosened: ${json.message.slice(0, 100)}…`)
}

async function upgradeAndRollBack() {
  const first = bundle(1)
  const seen = async () => {
    const [configMap] = (await objects(`${CORE}/configmaps`)).filter(({ metadata }) => metadata.name === 'edge-bundle')
    const [deployment] = await objects(`${APPS}/deployments`)
    return { text: configMap.data['bundle.yaml'], generation: deployment.metadata.generation, spec: deployment.spec }
  }
  apply('install', { bundle: { inline: first } })
  const installed = await seen()
  assert.equal(installed.text, first)

  apply('upgrade', { bundle: { inline: bundle(2) } })
  const reloaded = await seen()
  assert.equal(reloaded.text, bundle(2))
  assert.equal(reloaded.generation, installed.generation)
  say('upgrade to another bundle: the ConfigMap changes, the Deployment does not, so no pod is replaced')

  apply('upgrade', { bundle: { inline: bundle(2) }, replicas: 5, settings: { EDGE_DRAIN_MS: 20_000 } })
  const upgraded = await seen()
  assert.equal(upgraded.spec.replicas, 5)
  assert.equal(upgraded.spec.template.spec.terminationGracePeriodSeconds, installed.spec.template.spec.terminationGracePeriodSeconds + 15)
  say('upgrade of a setting: the Deployment changes, and its grace period with it')

  const keeping = ['--reset-then-reuse-values', '--set', 'replicas=6']
  helm('upgrade', 'edge', CHART, '--namespace', NAMESPACE, ...keeping)
  const kept = await seen()
  assert.equal(kept.text, bundle(2))
  assert.equal(kept.spec.replicas, 6)
  assert.deepEqual(kept.spec.template, upgraded.spec.template)
  say('upgrade with --reset-then-reuse-values: what was set before stays, and one value changes')

  helm('rollback', 'edge', '1', '--namespace', NAMESPACE)
  const back = await seen()
  assert.equal(back.text, first)
  assert.deepEqual(back.spec, installed.spec)
  const history = JSON.parse(helm('history', 'edge', '--namespace', NAMESPACE, '--output', 'json'))
  assert.deepEqual(
    history.map(({ status }) => status),
    ['superseded', 'superseded', 'superseded', 'superseded', 'deployed'],
  )
  helm('uninstall', 'edge', '--namespace', NAMESPACE)
  say('rollback to the first revision: bundle and Deployment are as they were')
}

/** The number of replicas is the autoscaler's business, except at the moment when it is switched on: then Kubernetes sets it to 1. */
async function switchToAutoscaling() {
  const values = { bundle: { inline: bundle(1) }, replicas: 4 }
  const replicas = async () => (await objects(`${APPS}/deployments`))[0].spec.replicas
  apply('install', values)
  apply('upgrade', { ...values, autoscaling: { enabled: true } })
  assert.equal(await replicas(), 1)
  // As the autoscaler would.
  const path = `${APPS}/deployments/edge/scale`
  const { json } = await cluster.call('GET', path)
  await cluster.call('PUT', path, { ...json, spec: { replicas: 7 } })
  apply('upgrade', { ...values, autoscaling: { enabled: true }, settings: { EDGE_DRAIN_MS: 1 } })
  assert.equal(await replicas(), 7)
  helm('rollback', 'edge', '2', '--namespace', NAMESPACE)
  assert.equal(await replicas(), 7)
  helm('uninstall', 'edge', '--namespace', NAMESPACE)
  say('autoscaling switched on: 1 replica at first; from then on upgrade and rollback leave the number alone')
}

function apply(command, values) {
  const file = join(cluster.directory, 'values.json')
  writeFileSync(file, JSON.stringify(values))
  helm(command, 'edge', CHART, '--namespace', NAMESPACE, '--values', file)
}

function createPod({ metadata, spec }) {
  return cluster.call('POST', `${CORE}/pods`, {
    metadata: { generateName: 'trial-', labels: metadata.labels, annotations: metadata.annotations },
    spec,
  })
}

/** A controller would remove the finalizer. */
async function removeClaim({ metadata }) {
  const path = `${CORE}/persistentvolumeclaims/${metadata.name}`
  await cluster.call('DELETE', path)
  const { json } = await cluster.call('GET', path)
  if (json?.kind === 'PersistentVolumeClaim') await cluster.call('PUT', path, { ...json, metadata: { ...json.metadata, finalizers: [] } })
}

async function objects(path) {
  const { status, json } = await cluster.call('GET', path)
  assert.equal(status, 200)
  return json.items
}

function bundle(version) {
  return `bundle_version: ${version}\npolicies: []\n`
}

function operatorModule() {
  const [, version] = /operator-(v[\d.]+)/.exec(testPart('kubernetes-schemas'))
  const module = `github.com/prometheus-operator/prometheus-operator@${version}`
  // Where Go is unpacked by its own instructions; the scripts before look there, too.
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/local/go/bin` }
  const { Dir } = JSON.parse(execFileSync('go', ['mod', 'download', '-json', module], { encoding: 'utf8', env }))
  return join(Dir, 'example/prometheus-operator-crd')
}

function script(path) {
  return execFileSync('sh', [join(ROOT, path)], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
}

function say(text) {
  console.log(text)
}
