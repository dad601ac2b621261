import { join } from 'node:path'
import { loadSync } from '@grpc/proto-loader'
import { PROTO } from './js-client.ts'

/** By message and name: `3 optional string`. */
export type FieldsByMessage = Record<string, Record<string, string>>

interface MessageType {
  readonly name: string
  readonly field: readonly { readonly name: string; readonly number: number; readonly label: string; readonly type: string }[]
  readonly nestedType: readonly MessageType[]
  readonly options: { readonly mapEntry: boolean } | null
}

/** Each field of each message that a file of ours defines. */
export function fieldsIn(file: string): FieldsByMessage {
  const all: FieldsByMessage = {}
  for (const [name, { type }] of Object.entries(loadSync(join(PROTO, file), { keepCase: true }))) {
    if (isMessage(type) && !name.startsWith('google.')) addFields(all, '', type)
  }
  return all
}

function addFields(all: FieldsByMessage, prefix: string, { name, field, nestedType, options }: MessageType): void {
  if (options?.mapEntry) return
  const fields = field.map((each) => [each.name, `${each.number} ${wordOf(each.label)} ${wordOf(each.type)}`])
  all[`${prefix}${name}`] = Object.fromEntries(fields)
  for (const nested of nestedType) addFields(all, `${prefix}${name}.`, nested)
}

function isMessage(type: object | undefined): type is MessageType {
  return type !== undefined && 'field' in type
}

/** `LABEL_OPTIONAL` and `TYPE_STRING`. */
function wordOf(constant: string): string {
  return constant.replace(/^(LABEL|TYPE)_/, '').toLowerCase()
}
