import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { type JsonSchema, type Schemas, type Sources, schemaShapes, typeShapes } from '../support/admin/json-shapes.ts'

const DESCRIPTION = JSON.parse(readFileSync(new URL('../../assets/openapi/admin.json', import.meta.url), 'utf8')) as {
  readonly paths: unknown
  readonly components: { readonly schemas: Schemas }
}
const { schemas } = DESCRIPTION.components

const SOURCES: Sources = {
  'types.ts': readFileSync(new URL('../../src/admin/api/types.ts', import.meta.url), 'utf8'),
  'caller-types.ts': readFileSync(new URL('../../src/admin/api/caller-types.ts', import.meta.url), 'utf8'),
  'instance-types.ts': readFileSync(new URL('../../src/admin/api/instance-types.ts', import.meta.url), 'utf8'),
  'backend-types.ts': readFileSync(new URL('../../src/admin/api/backend-types.ts', import.meta.url), 'utf8'),
  'key-types.ts': readFileSync(new URL('../../src/admin/api/key-types.ts', import.meta.url), 'utf8'),
}

const types = typeShapes(SOURCES)

describe('the types of the admin API', () => {
  test('are those of assets/openapi/admin.json: the same names, members, options, nulls and texts', () => {
    expect(types).toEqual(schemaShapes(schemas))
  })

  test('are what every request and response consists of', () => {
    const others = bodiesIn(DESCRIPTION.paths).filter(({ $ref }) => $ref === undefined)
    // The description does not describe itself.
    expect(others).toEqual([{ type: 'object' }])
  })

  const rule = schemas['ExplainedRule']!
  const { cost, applied, ...others } = rule.properties!
  const request = schemas['OverrideRequest']!
  const { replace, ...kept } = request.properties!

  test.each<[string, Schemas]>([
    ['a member more', { ExplainedRule: { ...rule, properties: { ...rule.properties, more: { type: 'string' } } } }],
    ['a member less', { OverrideRequest: { ...request, properties: kept } }],
    ['one that is never null', { ExplainedRule: { ...rule, properties: { ...others, applied: applied!, cost: { type: 'number' } } } }],
    [
      'one that may be null',
      { ExplainedRule: { ...rule, properties: { ...others, cost: cost!, applied: { anyOf: [applied!, { type: 'null' }] } } } },
    ],
    ['one that may be absent', { ExplainedRule: { ...rule, required: rule.required!.slice(1) } }],
    ['one that is required', { OverrideRequest: { ...request, required: [...request.required!, 'replace'] } }],
    ['another kind of value', { Time: { type: 'number' } }],
    ['a text more', { PolicyMode: { enum: [...schemas['PolicyMode']!.enum!, 'off'] } }],
    ['a text less', { PolicyMode: { enum: schemas['PolicyMode']!.enum!.slice(1) } }],
    ['a schema without a type', { Day: { type: 'string' } }],
  ])('are told from schemas with %s', (_, changed) => {
    expect(types).not.toEqual(schemaShapes({ ...schemas, ...changed }))
  })

  test('are told from schemas of which one is missing', () => {
    const { SessionRequest, ...rest } = schemas
    expect(Object.keys(types)).toContain('SessionRequest')
    expect(types).not.toEqual(schemaShapes(rest))
  })
})

test('a type has the shape of what it becomes in JSON', () => {
  const source = `
    interface Base { readonly id: string }
    export interface Shown extends Base { a?: number | undefined; b: boolean | null; c: readonly (1 | 'x')[]; d: Names; e: true }
    export type Names = Readonly<Record<string, string | readonly unknown[]>>`
  expect(typeShapes({ 'sample.ts': source })).toEqual({
    Shown: '{ a?: number; b: boolean | null; c: ("x" | 1)[]; d: { *: (unknown)[] | string }; e: true; id: string }',
    Names: '{ *: (unknown)[] | string }',
  })
})

/** The schema of every body in JSON. */
function bodiesIn(node: unknown): JsonSchema[] {
  if (typeof node !== 'object' || node === null) return []
  const { 'application/json': json } = node as { 'application/json'?: { schema: JsonSchema } }
  return json === undefined ? Object.values(node).flatMap(bodiesIn) : [json.schema]
}
