import { existsSync } from 'node:fs'
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadAll, YAML11_SCHEMA } from 'js-yaml'
import { describeWith } from '../describe-with.ts'
import { type Finished, run, succeed } from '../packaging/npm.ts'
import { ROOT } from '../packaging/source-copy.ts'
import { scratchDirectory } from '../service/running.ts'
import { testPart } from '../test-part.ts'

const CHART = join(ROOT, 'deploy/helm/edge')
export const HELM = testPart('helm')
const KUBECONFORM = testPart('kubeconform')
const SCHEMAS = testPart('kubernetes-schemas')
/** A Helm that was built from its module takes itself to be on a Kubernetes of 2020. */
const KUBERNETES = '1.34.4'

export type Values = Readonly<Record<string, unknown>>

// biome-ignore lint/suspicious/noExplicitAny: manifests are what this is about, and kubeconform checks their types.
export type Manifest = any

/** Tests that need Helm, kubeconform and its schemas. */
export function describeWithHelm(name: string, body: () => void): void {
  const missing = [HELM, KUBECONFORM, SCHEMAS].filter((path) => !existsSync(path))
  const text = `${missing.join(', ')} missing: run sh scripts/install-test-parts.sh`
  describeWith(missing.length === 0 ? undefined : text, name, body)
}

const renderedBefore = new Map<string, Promise<string>>()

/** What the chart makes of these values in a release of this name, as text. The same values are rendered once. */
export function rendered(values: Values, release = 'edge'): Promise<string> {
  const key = JSON.stringify([release, values])
  const text = renderedBefore.get(key) ?? render(values, release)
  renderedBefore.set(key, text)
  return text
}

async function render(values: Values, release: string): Promise<string> {
  const directory = await scratchDirectory()
  return succeed(directory, HELM, ...(await templateArguments(directory, values, CHART, release)))
}

/** The same for a chart and options as somebody types them at the top of the repository. */
export function renderedBy(args: readonly string[]): Promise<string> {
  return succeed(ROOT, HELM, 'template', 'edge', ...args, '--kube-version', KUBERNETES)
}

/** What Helm says to values that it cannot use. */
export async function refused(values: Values, release = 'edge'): Promise<Finished> {
  const directory = await scratchDirectory()
  return run(directory, HELM, ...(await templateArguments(directory, values, CHART, release)))
}

export async function linted(values: Values): Promise<Finished> {
  const directory = await scratchDirectory()
  await writeFile(join(directory, 'values.yaml'), JSON.stringify(values))
  return run(directory, HELM, 'lint', CHART, '--strict', '--kube-version', KUBERNETES, '--values', 'values.yaml')
}

/** What kubeconform says about manifests, by the schemas of Kubernetes and of the Prometheus Operator. */
export async function validated(manifests: string): Promise<Finished> {
  const directory = await scratchDirectory()
  await writeFile(join(directory, 'manifests.yaml'), manifests)
  return run(directory, KUBECONFORM, '-strict', '-schema-location', `${SCHEMAS}/{{.ResourceKind}}{{.KindSuffix}}.json`, 'manifests.yaml')
}

/** The chart as it is published: the names of the files in it. */
export async function packedFiles(): Promise<string[]> {
  const directory = await scratchDirectory()
  await succeed(directory, HELM, 'package', CHART)
  return (await succeed(directory, 'sh', '-c', 'tar -tzf *.tgz')).split('\n').filter((name) => name !== '')
}

/** What Helm tells whoever has installed the chart with these values. It prints notes only with a cluster, so here they become an object. */
export async function notesOf(values: Values): Promise<string> {
  const directory = await scratchDirectory()
  const copy = join(directory, 'edge')
  await cp(CHART, copy, { recursive: true })
  const notes = await readFile(join(copy, 'templates/NOTES.txt'), 'utf8')
  const object = '{"apiVersion": "v1", "kind": "Notes", "text": {{ include "notes" . | toJson }}}'
  await writeFile(join(copy, 'templates/notes.yaml'), `{{- define "notes" -}}\n${notes}{{- end -}}\n${object}\n`)
  return only(await succeed(directory, HELM, ...(await templateArguments(directory, values, copy))), 'Notes').text
}

/** The objects of a kind; Kubernetes reads YAML 1.1. */
export function manifests(text: string, kind: string): Manifest[] {
  const all = loadAll(text, { schema: YAML11_SCHEMA }) as Manifest[]
  return all.filter((each) => each?.kind === kind)
}

export function only(text: string, kind: string): Manifest {
  const found = manifests(text, kind)
  if (found.length !== 1) throw new Error(`expected one ${kind}, found ${found.length}`)
  return found[0]
}

export function podOf(text: string): Manifest {
  return only(text, 'Deployment').spec.template.spec
}

/** The variables of the container. What is in a Secret is replaced by a value that its setting accepts. */
export function environmentOf(text: string, secretValues: Readonly<Record<string, string>> = {}): Record<string, string> {
  const { env } = podOf(text).containers[0] as { env: { name: string; value?: string }[] }
  return Object.fromEntries(env.map(({ name, value }) => [name, value ?? secretValues[name] ?? '']))
}

async function templateArguments(directory: string, values: Values, chart = CHART, release = 'edge'): Promise<string[]> {
  await writeFile(join(directory, 'values.yaml'), JSON.stringify(values))
  return ['template', release, chart, '--kube-version', KUBERNETES, '--values', 'values.yaml']
}
