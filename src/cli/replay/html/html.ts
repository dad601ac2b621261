/** Text that is HTML already. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Content = Html | string | number | readonly Content[] | undefined | false

/** A template whose values are shown as text, never read as HTML, unless they are made by this function too. */
export function html(strings: TemplateStringsArray, ...values: readonly Content[]): Html {
  return new Html(strings.reduce((text, part, i) => text + contentText(values[i - 1]) + part))
}

function contentText(content: Content): string {
  if (content instanceof Html) return content.text
  if (typeof content === 'string') return escaped(content)
  if (typeof content === 'number') return String(content)
  return content === undefined || content === false ? '' : content.map(contentText).join('')
}

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character]!)
}
