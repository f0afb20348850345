"""Columns of numbers and of categories to float32, the same way at every call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from tsmamba.errors import CovariateError, ParameterError

_MOST_CATEGORIES = 64
_ROUNDING = 1e-12  # deviations below this part of the largest value are rounding errors


@dataclass(frozen=True)
class Numbers:
    """A column of numbers, standardised; missing values become zero, which is the mean.

    Parameters
    ----------
    name : str
        The column.
    mean, scale : float
        Of the rows that were learned from; the scale of a constant column is 1.

    Examples
    --------
    >>> Numbers.learn(pl.Series("price", [1, 3, None])).encode(pl.Series([3, None])).ravel()
    array([1., 0.])
    """

    name: str
    mean: float
    scale: float

    @classmethod
    def learn(cls, values: pl.Series) -> "Numbers":
        """Take mean and standard deviation of a column."""
        numbers = values.cast(pl.Float64).drop_nulls().to_numpy()
        if not numbers.size:
            return cls(values.name, 0.0, 1.0)
        # Dividing first keeps sums of huge values finite, and makes constants exactly constant.
        peak = float(np.abs(numbers).max()) or 1.0
        mean, deviation = float(np.mean(numbers / peak)), float(np.std(numbers / peak))
        scale = deviation * peak if deviation > _ROUNDING else 1.0
        return cls(values.name, mean * peak, scale)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of the encoded column."""
        return (self.name,)

    def encode(self, values: pl.Series) -> np.ndarray:
        """Standardise values, to shape (n, 1)."""
        standardised = (values.cast(pl.Float64) - self.mean) / self.scale
        return standardised.fill_null(0.0).to_numpy()[:, None]


@dataclass(frozen=True)
class Categories:
    """A column of text or booleans, one 0/1 column for each category.

    Values that were not there when the categories were learned, and missing ones, are zero in all
    of them.

    Parameters
    ----------
    name : str
        The column.
    categories : tuple of str
        In order.

    Examples
    --------
    >>> Categories("sky", ("blue", "grey")).encode(pl.Series(["grey", "green"])).tolist()
    [[False, True], [False, False]]
    """

    name: str
    categories: tuple[str, ...]

    @classmethod
    def learn(cls, values: pl.Series) -> "Categories":
        """Take the distinct values of a column, at most 64."""
        found = values.cast(pl.String).drop_nulls().unique().sort().to_list()
        if len(found) > _MOST_CATEGORIES:
            raise CovariateError(
                f"covariate {values.name!r} holds {len(found)} different values, and at most "
                f"{_MOST_CATEGORIES} categories are accepted: group the rare ones under one name, "
                "leave the column out, or convert it if numbers are meant"
            )
        return cls(values.name, tuple(found))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, values: pl.Series) -> np.ndarray:
        """Mark the category of each value, bool of shape (n, categories)."""
        known = values.cast(pl.String).cast(pl.Enum(self.categories), strict=False)
        codes = known.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        marks: np.ndarray = codes[:, None] == np.arange(len(self.categories))
        return marks


Column: TypeAlias = Numbers | Categories


@dataclass(frozen=True)
class Encoding:
    """How the covariates of a frame become numbers, as learned from the frame that was fitted.

    Parameters
    ----------
    columns : tuple of Numbers or Categories
        One for each column of the user, in order.

    Examples
    --------
    >>> frame = pl.DataFrame({"price": [1.0, 3.0], "sky": ["blue", "grey"]})
    >>> encoding = Encoding.learn(frame)
    >>> encoding.names
    ('price', 'sky=blue', 'sky=grey')
    >>> encoding.encode(frame).tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """

    columns: tuple[Column, ...]

    @classmethod
    def learn(cls, frame: pl.DataFrame) -> "Encoding":
        """Learn the encoding of all columns of a frame.

        Parameters
        ----------
        frame : polars.DataFrame
            Numbers, text, categories and booleans; nulls are missing values.

        Returns
        -------
        Encoding
            Of every column.

        Raises
        ------
        CovariateError
            If a column is of another type, or has too many categories.

        Examples
        --------
        >>> Encoding.learn(pl.DataFrame({"open": [True, None]})).names
        ('open=true',)
        """
        return cls(
            tuple(
                Categories.learn(values) if is_category(values) else Numbers.learn(values)
                for values in frame.iter_columns()
            )
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all encoded columns."""
        return tuple(name for column in self.columns for name in column.names)

    def select(self, names: Sequence[str]) -> "Encoding":
        """Return the encoding of some of the user's columns.

        Parameters
        ----------
        names : sequence of str
            Columns that were learned, in the order wanted.

        Returns
        -------
        Encoding
            Of these.

        Examples
        --------
        >>> Encoding((Numbers("a", 0.0, 1.0), Numbers("b", 0.0, 1.0))).select(["b"]).names
        ('b',)
        """
        by_name = {column.name: column for column in self.columns}
        return Encoding(tuple(by_name[name] for name in names))

    def encode(self, frame: pl.DataFrame) -> np.ndarray:
        """Encode rows.

        Parameters
        ----------
        frame : polars.DataFrame of n rows
            Holds all columns that were learned.

        Returns
        -------
        ndarray of shape (n, len(names)), float32
            Columns in the order of `names`.

        Raises
        ------
        CovariateError
            If a column of numbers now holds text, or the other way round.

        Examples
        --------
        >>> Encoding((Numbers("a", 1.0, 2.0),)).encode(pl.DataFrame({"a": [5]}))
        array([[2.]], dtype=float32)
        """
        for column in self.columns:
            _check_kind(frame.get_column(column.name), column)
        encoded = np.empty((frame.height, len(self.names)), np.float32)
        begin = 0
        for column in self.columns:
            end = begin + len(column.names)
            encoded[:, begin:end] = column.encode(frame.get_column(column.name))
            begin = end
        return encoded

    def to_dict(self) -> dict[str, Any]:
        """Give the encoding as JSON types.

        Returns
        -------
        dict
            What `from_dict` reads.

        Examples
        --------
        >>> Encoding((Categories("sky", ("blue",)),)).to_dict()
        {'columns': [{'name': 'sky', 'categories': ['blue']}]}
        """
        return {
            "columns": [
                {"name": column.name, "categories": list(column.categories)}
                if isinstance(column, Categories)
                else {"name": column.name, "mean": column.mean, "scale": column.scale}
                for column in self.columns
            ]
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Encoding":
        """Undo `to_dict`.

        Parameters
        ----------
        fields : mapping
            What `to_dict` gave.

        Returns
        -------
        Encoding
            An equal one.

        Raises
        ------
        ParameterError
            If the fields are not those of an encoding.

        Examples
        --------
        >>> Encoding.from_dict({"columns": [{"name": "a", "mean": 0.0, "scale": 1.0}]}).names
        ('a',)
        """
        try:
            return cls(
                tuple(
                    Categories(str(column["name"]), tuple(map(str, column["categories"])))
                    if "categories" in column
                    else Numbers(str(column["name"]), float(column["mean"]), float(column["scale"]))
                    for column in fields["columns"]
                )
            )
        except (KeyError, TypeError, ValueError):
            raise ParameterError(f"{fields!r} is not a stored encoding") from None


def is_category(values: pl.Series) -> bool:
    """Tell categories from numbers by the type of a column.

    Parameters
    ----------
    values : polars.Series
        A covariate; one of nulls only counts as numbers.

    Returns
    -------
    bool
        Whether it holds text, categories or booleans.

    Raises
    ------
    CovariateError
        If it holds neither these nor numbers.

    Examples
    --------
    >>> is_category(pl.Series([True])), is_category(pl.Series([1]))
    (True, False)
    """
    dtype = values.dtype
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum | pl.Boolean):
        return True
    if dtype.is_numeric() or dtype == pl.Null:
        return False
    hint = f", e.g. with pl.col({values.name!r}).dt" if dtype.is_temporal() else ""
    raise CovariateError(
        f"covariate {values.name!r} is of type {dtype}; numbers, booleans and text are accepted: "
        f"derive one of these from it{hint}"
    )


def _check_kind(values: pl.Series, column: Column) -> None:
    """Refuse a column whose kind is not the one that was learned; nulls fit both."""
    fitted = isinstance(column, Categories)
    if values.dtype == pl.Null or is_category(values) == fitted:
        return
    kinds = ("numbers", "categories")
    target = "pl.String" if fitted else "pl.Float64"
    raise CovariateError(
        f"covariate {values.name!r} is of type {values.dtype} and was fitted as {kinds[fitted]}; "
        f"give the kind that was fitted: pl.col({values.name!r}).cast({target})"
    )
