# SPDX-License-Identifier: Apache-2.0
"""Where estimators keep data, checkpoints and logs: a folder of any file system of pyarrow."""

from __future__ import annotations

import posixpath
from typing import Any

from pyarrow import fs as file_systems


class Store:
    """A folder. `Store.create` takes a path of this machine, hdfs://..., s3://... or any address
    that pyarrow knows. Every process of a training has to reach it under the same name.

    HDFS and S3 are pyarrow's file systems and have not been tested with estimators.
    """

    def __init__(self, prefix_path: str) -> None:
        if "://" not in prefix_path:
            prefix_path = "file://" + posixpath.abspath(prefix_path)
        self.prefix_path = prefix_path.rstrip("/")

    @staticmethod
    def create(prefix_path: str, *args: Any, **kwargs: Any) -> Store:
        kinds = {"hdfs": HDFSStore, "s3": S3Store, "dbfs": DBFSLocalStore}
        kind = kinds.get(prefix_path.partition(":")[0], FilesystemStore)
        if "://" not in prefix_path and kind is FilesystemStore:
            kind = LocalStore
        return kind(prefix_path, *args, **kwargs)

    def get_train_data_path(self, run_id: str) -> str:
        return f"{self.prefix_path}/intermediate_train_data.{run_id}"

    def get_val_data_path(self, run_id: str) -> str:
        return f"{self.prefix_path}/intermediate_val_data.{run_id}"

    def get_run_path(self, run_id: str) -> str:
        return f"{self.prefix_path}/runs/{run_id}"

    def get_checkpoint_path(self, run_id: str) -> str:
        return f"{self.get_run_path(run_id)}/checkpoint"

    def get_logs_path(self, run_id: str) -> str:
        return f"{self.get_run_path(run_id)}/logs"

    def exists(self, path: str) -> bool:
        system, name = self._open(path)
        return bool(system.get_file_info(name).type != file_systems.FileType.NotFound)

    def read(self, path: str) -> bytes:
        system, name = self._open(path)
        with system.open_input_stream(name) as stream:
            content: bytes = stream.read()
        return content

    def write(self, path: str, content: bytes) -> None:
        """A reader sees the old content or the new one."""
        system, name = self._open(path)
        self.create_folder(posixpath.dirname(path))
        with system.open_output_stream(name + ".new") as stream:
            stream.write(content)
        system.move(name + ".new", name)

    def create_folder(self, path: str) -> None:
        """OSError where this process cannot."""
        system, name = self._open(path)
        system.create_dir(name, recursive=True)

    def delete(self, path: str) -> None:
        """Of a folder with all that is in it; nothing where there is none."""
        system, name = self._open(path)
        if self.exists(path):
            system.delete_dir(name)

    def for_spark(self, path: str) -> str:
        """As Spark calls it."""
        return path

    def dataset(self, path: str) -> Any:
        """The Parquet files below the path."""
        from pyarrow import dataset

        system, name = self._open(path)
        return dataset.dataset(name, format="parquet", filesystem=system)

    def _open(self, path: str) -> tuple[Any, str]:
        system, name = file_systems.FileSystem.from_uri(path)
        return system, name


class FilesystemStore(Store):
    """A store by the address of its file system."""


class LocalStore(FilesystemStore):
    """A folder that all machines of a training share under one path."""


class HDFSStore(FilesystemStore):
    """A folder of HDFS: hdfs://namenode:8020/path. Not tested."""


class S3Store(FilesystemStore):
    """A folder of S3: s3://bucket/path. Not tested. Spark writes by the scheme s3a."""

    def for_spark(self, path: str) -> str:
        return path.replace("s3://", "s3a://", 1)


class DBFSLocalStore(LocalStore):
    """A folder of DBFS, by its mount: dbfs:/path is /dbfs/path."""

    def __init__(self, prefix_path: str) -> None:
        for scheme in ("dbfs://", "dbfs:"):
            if prefix_path.startswith(scheme):
                prefix_path = "/dbfs/" + prefix_path.removeprefix(scheme).lstrip("/")
                break
        super().__init__(prefix_path)
