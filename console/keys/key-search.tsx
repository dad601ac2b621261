import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { KeyLabelsJson } from '../../src/admin/api/key-types.ts'
import { messageOf } from '../api.ts'
import { addressOf } from '../navigation.ts'
import { Field } from '../parts/field.tsx'
import { labelText } from './key-facts.tsx'

interface KeySearchProps {
  /** The labels that keys are listed by. */
  readonly labels: KeyLabelsJson
  readonly onSearch: (labels: KeyLabelsJson) => void
  /** Called by somebody who wants to see what has changed meanwhile. */
  readonly onRefresh: () => void
}

/**
 * Narrows the list to keys with these labels, or opens one by its id. There may be a million keys, so what is typed is not searched for in other places. Labels
 * may name people, so they are not in the address.
 */
export function KeySearch({ labels, onSearch, onRefresh }: KeySearchProps) {
  const problem = useSignal<string | undefined>(undefined)
  const field = useRef<HTMLInputElement>(null)
  const submit = (event: SubmitEvent): void => {
    event.preventDefault()
    const { value } = field.current!
    try {
      const found = readSearch(value)
      problem.value = undefined
      if ('id' in found) location.hash = addressOf('key', found)
      else onSearch({ ...labels, ...found.labels })
      field.current!.value = ''
    } catch (error) {
      problem.value = messageOf(error)
      // A key that was pasted by mistake does not stay in sight.
      if (ISSUED_KEY.test(value)) field.current!.value = ''
    }
  }
  const remove = (removed: string): void => {
    onSearch(Object.fromEntries(Object.entries(labels).filter(([name]) => name !== removed)))
    field.current!.focus()
  }
  return (
    <search class="key-search">
      <form class="bar" onSubmit={submit} noValidate>
        <Field label="Find keys" error={problem.value}>
          {(control) => (
            <input
              {...control}
              ref={field}
              type="search"
              placeholder="LABEL=VALUE, or an id"
              maxLength={1000}
              autocomplete="off"
              autocapitalize="off"
              spellcheck={false}
              enterkeyhint="search"
            />
          )}
        </Field>
        <button type="submit">Find</button>
        <button type="button" onClick={onRefresh}>
          Refresh
        </button>
      </form>
      {Object.keys(labels).length > 0 && (
        <ul class="labels" aria-label="Only keys with">
          {Object.entries(labels).map(([name, value]) => (
            <li key={name}>
              <button type="button" class="code" onClick={() => remove(name)}>
                {labelText(name, value)}
                <span aria-hidden="true"> ✕</span>
                <span class="unseen">: remove</span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </search>
  )
}

const ISSUED_KEY = /edge_[\w-]{20}/
/** As the log and rules have it, or alone. */
const ID = /^(?:key:)?([0-9a-f]{12})$/i
const NEXT_LABEL = /\s+(?=[\w.-]{1,64}=)/

/** Reads an id, or `LABEL=VALUE`, several of them with spaces in between. Throws an Error that says what is wrong. */
function readSearch(text: string): { readonly id: string } | { readonly labels: KeyLabelsJson } {
  const typed = text.trim()
  if (ISSUED_KEY.test(typed))
    throw new Error('This is a key itself, which belongs in no search. Explain says whose it is: put it into a header field there.')
  const id = ID.exec(typed)?.[1]
  if (id !== undefined) return { id: id.toLowerCase() }
  const labels = new Map<string, string>()
  for (const pair of typed.split(NEXT_LABEL)) {
    const [, name, value] = /^([\w.-]{1,64})=(.+)$/s.exec(pair) ?? []
    if (name === undefined) throw new Error('Type LABEL=VALUE, such as team=search, or the id of a key, which has twelve characters.')
    if (NO_LABELS.has(name)) throw new Error(`No label has the name ${name}.`)
    if (labels.has(name)) throw new Error(`${name} is there twice: a key has one value for each label.`)
    labels.set(name, value!)
  }
  return { labels: Object.fromEntries(labels) }
}

const NO_LABELS: ReadonlySet<string> = new Set(['id', 'after', 'limit', '__proto__'])
