import { readFileSync } from 'node:fs'
import { expect } from 'vitest'
import { matches, type Schema } from '../bundles/json-schema.ts'

interface Operation {
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>
}

type Content = Readonly<Record<string, { readonly schema: Schema }>>

interface OpenApi {
  readonly openapi: string
  /** By path and method in lower case. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>>; readonly responses: Operation['responses'] }
}

const TEXT = readFileSync(new URL('../../../assets/openapi/admin.json', import.meta.url), 'utf8')

/** The description of the admin API, with every reference replaced by what it refers to. */
export const OPENAPI = resolved(JSON.parse(TEXT), JSON.parse(TEXT)) as OpenApi

/** Fails unless the description has this response of this path (below `/admin/v1/`, with or without a query). */
export function expectDocumented(
  method: string,
  path: string,
  { status, json }: { readonly status: number; readonly json: unknown },
): void {
  const asked = `/${path.split('?')[0]}`
  const template = Object.keys(OPENAPI.paths).find((known) => new RegExp(`^${known.replace(/\{\w+\}/g, '[^/]+')}$`).test(asked))
  const operation = template === undefined ? undefined : OPENAPI.paths[template]![method.toLowerCase()]
  const response = operation?.responses[status] ?? (operation === undefined || status === 405 ? errorResponse(status) : undefined)
  const what = `${method} ${asked}: ${status}`
  expect(response, `${what} is not in assets/openapi/admin.json`).toBeDefined()
  const schema = response!.content?.['application/json']?.schema
  if (schema === undefined) return expect(json, `${what} has no JSON body`).toBeUndefined()
  expect(problemsOf(schema, json), `${what} is not as in assets/openapi/admin.json: ${JSON.stringify(json)}`).toEqual([])
}

/** Any path, and any method, may be refused. */
function errorResponse(status: number): Operation['responses'][string] | undefined {
  const names: Readonly<Record<number, string>> = { 401: 'Unauthorized', 404: 'NotFound', 405: 'MethodNotAllowed', 429: 'TooManyAttempts' }
  return OPENAPI.components.responses[names[status] ?? '']
}

/** Where a value is not as the schema says. */
function problemsOf(schema: Schema, value: unknown, path = '$'): string[] {
  if (matches(schema, value)) return []
  const { properties = {}, items } = schema as { properties?: Record<string, Schema>; items?: Schema }
  const inside =
    Array.isArray(value) && items !== undefined
      ? value.flatMap((item, i) => problemsOf(items, item, `${path}[${i}]`))
      : Object.entries(value ?? {}).flatMap(([name, member]) =>
          Object.hasOwn(properties, name) ? problemsOf(properties[name]!, member, `${path}.${name}`) : [],
        )
  return inside.length > 0 ? inside : [`${path}: ${JSON.stringify(value)} does not match ${JSON.stringify(schema).slice(0, 300)}`]
}

function resolved(node: unknown, root: unknown): unknown {
  if (Array.isArray(node)) return node.map((item) => resolved(item, root))
  if (typeof node !== 'object' || node === null) return node
  const { $ref } = node as { $ref?: string }
  if ($ref !== undefined) return resolved(target($ref, root), root)
  return Object.fromEntries(Object.entries(node).map(([name, member]) => [name, resolved(member, root)]))
}

function target(reference: string, root: unknown): unknown {
  let node = root
  for (const step of reference.slice('#/'.length).split('/')) node = (node as Record<string, unknown> | undefined)?.[step]
  if (node === undefined) throw new Error(`assets/openapi/admin.json refers to ${reference}, which it does not have`)
  return node
}
