// Amounts, parts and days of figures as people write them.

import {el, several} from './elements.js'

const percents = new Intl.NumberFormat('en-GB', {style: 'percent', maximumFractionDigits: 1})
export const percent = (part) => part === null ? '–' : percents.format(part)
export const wholePercent = new Intl.NumberFormat('en-GB', {style: 'percent'}).format
export const signed = new Intl.NumberFormat('en-GB', {signDisplay: 'exceptZero'})
export const shorts = new Intl.NumberFormat('en-GB', {notation: 'compact', maximumFractionDigits: 1})

export function money(currency) {
  const options = {minimumFractionDigits: 2, maximumFractionDigits: 2}
  // A currency that the browser does not know is written after the amount.
  try { return new Intl.NumberFormat('en-GB', {style: 'currency', currency, ...options}).format } catch {
    const plain = new Intl.NumberFormat('en-GB', options)
    return (amount) => `${plain.format(amount)} ${currency}`
  }
}

const formats = Object.fromEntries(Object.entries({
  day: {day: 'numeric', month: 'short'}, fullDay: {day: 'numeric', month: 'long', year: 'numeric'},
  month: {month: 'short', year: '2-digit'}, fullMonth: {month: 'long', year: 'numeric'},
}).map(([name, options]) => [name, new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', ...options})]))

/// A product ID or another name of the app's, which may go on in another line after each point.
export const identifier = (id) => id.split(/(?<=[._-])/).map((part) => [part, el('wbr')])

export function dated({from}, isByMonth) {
  const day = new Date(`${from}T00:00:00Z`)
  const [short, long] = isByMonth ? [formats.month, formats.fullMonth] : [formats.day, formats.fullDay]
  return {short: short.format(day), long: long.format(day)}
}

/// `P1M` in words.
export function period(text) {
  const match = /^P([0-9]+)([DWMY])$/.exec(text || '')
  if (!match) return text ? text : 'once'
  const names = {D: 'day', W: 'week', M: 'month', Y: 'year'}
  return `every ${match[1] === '1' ? names[match[2]] : several(Number(match[1]), names[match[2]])}`
}
