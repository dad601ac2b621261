/** The part of JSON Schema that the schema of a bundle and the description of the admin API use. */
export interface NamedSchema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly NamedSchema[]
  readonly oneOf?: readonly NamedSchema[]
  readonly allOf?: readonly NamedSchema[]
  readonly items?: NamedSchema
  readonly properties?: Readonly<Record<string, NamedSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: NamedSchema | boolean
}

/**
 * What a schema promises, a line for each member, kind of value and text: `policies[].spec.mode = "shadow"`. A member that is always there ends in
 * `!`. What a schema allows in several ways has the lines of all of them, so that one more way adds lines and changes none.
 */
export function schemaLines(schema: NamedSchema, path: string): string[] {
  return [...new Set(linesOf(schema, path))]
}

function* linesOf(schema: NamedSchema, path: string): Generator<string> {
  if (schema.$ref !== undefined) yield `${path}: ${schema.$ref.replace(/^.*\//, '')}`
  for (const text of [...(schema.enum ?? []), ...('const' in schema ? [schema.const] : [])]) yield `${path} = ${JSON.stringify(text)}`
  for (const way of [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])]) yield* linesOf(way, path)
  const types = typeof schema.type === 'string' ? [schema.type] : (schema.type ?? [])
  for (const type of types) if (type !== 'object' && type !== 'array') yield `${path}: ${type}`
  if (schema.items !== undefined) yield* linesOf(schema.items, `${path}[]`)
  if (typeof schema.additionalProperties === 'object') yield* linesOf(schema.additionalProperties, `${path}.*`)
  for (const [name, member] of Object.entries(schema.properties ?? {})) {
    const memberPath = path === '' ? name : `${path}.${name}`
    yield schema.required?.includes(name) ? `${memberPath}!` : memberPath
    yield* linesOf(member, memberPath)
  }
}
